// Package weave keeps the chapters of the book and the finished code of kcm one
// source.
//
// The finished code lies in kcm/ and carries no marks. The chapters lie in
// chapters/NN-slug/README.md and are plain Markdown. A fenced block in a chapter
// shows declarations of the code; its info string says which ones:
//
//	```go kcm/app lead runUntil
//	```
//
// The rule:
//
//   - The last chapter that shows a declaration shows it as it is in kcm/, with
//     its comment. weave fills that block.
//   - An earlier chapter that shows the same declaration shows a draft. Then the
//     chapter is the source: what stands in the block is what the reader has
//     until a later chapter shows the declaration again. What it imports is
//     imported by some file of kcm.
//   - A roster is a declaration that lists things: controllers, options, checks.
//     Its block says so after the names. In a chapter, what names something that
//     no chapter has shown so far is left out of it: elements of composite
//     literals, statements, and fields of structs. So a list grows without drafts.
//     The first chapter and the last that show a roster show it whole, others what it
//     has gained: their info strings begin with diff, which weave sees to.
//   - A field of a struct that is a roster can be shown by itself, as
//     health.election. It, and all that uses it in rosters, exists from that
//     chapter on.
//   - A group in parentheses is one declaration; any of its names names it. A
//     method is named (*T).name or (T).name, without type parameters. A package's
//     comment is named package, its imports, where it has blank ones, import.
//   - Everything in kcm/ outside of tests is shown.
//
// Stage NN is what the reader of chapter NN has: all declarations that the
// chapters up to it show, each in its latest form, in the files in which the
// finished code has them, with the imports that they need. A package's unit tests
// join the stage in which all its declarations have their final form, and what
// the tests import from labs/ comes with them. They do not wait for what a chapter
// adds that says <!-- aside -->.
//
// A lesson can have steps, <!-- step: naive -->: each is a stage by itself, with what
// stands above it. What the chapter shows below it once more is a draft above it. The
// rest of the chapter's code is there from the beginning, but for blocks that say later:
// they come after the first step. Those that say from:queue come with the step queue.
//
// Besides Go, a block can show a file of the repository, or a step of the chapter's
// lab:
//
//	```yaml labs/06-replication/manifests/web.yaml
//	```
//
// weave writes a caption above each block that it fills or compiles, and below it,
// folded, what has changed since an earlier chapter showed it, or what catches a
// wrong solution. Of what the page has shown before it is the change that is open, and
// the whole that is folded. And weave remembers in chapters/names.txt which names of
// kcm the prose has, so that none of them is left behind when the code changes.
package weave
