// Package weave keeps the chapters of the book and the finished code of kcm one source. What a block of a chapter
// shows, what drafts, rosters and steps are, and what weave writes itself, CONTRIBUTING.md tells whoever writes a
// chapter; the info strings are in package chapters. Here is what follows of it for the code.
//
// The last chapter that shows a declaration shows it as it is in kcm/, and weave fills that block; an earlier one shows
// a draft, whose text is the chapter's. What a draft imports is imported by some file of kcm. A roster loses the
// elements of composite literals, the statements and the fields of structs that name something that is not shown yet;
// the first chapter and the last show it whole, others what it has gained: their info strings begin with diff, which
// weave sees to. Everything in kcm/ outside of tests is shown.
//
// Stage NN is what the reader of chapter NN has: all declarations that the chapters up to it show, each in its latest
// form, in the files in which the finished code has them, with the imports that they need. A package's unit tests join
// the stage in which all its declarations have their final form, and what the tests import from labs/ comes with them.
package weave
