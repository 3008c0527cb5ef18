// Package play plays scripts that say what a controller manager does, as a user of the API sees it: scenarios, labs,
// the demo, and scripts of your own.
//
// A script is a [testscript]: lines of verbs, and files that it needs after the last line. chapters/language.md has
// one, and how to play yours; `make play` lists the verbs, as [Verbs] does. A mistake in a script is told with its line
// and column before anything starts.
//
// # Two faces
//
// A scenario is a script without steps: its name is the sentence that it proves, a manager runs all loops already, and
// it works in a namespace of its own. go test ./labs/scenarios plays them.
//
// A lab has steps, whose names are sentences for a reader. It starts its managers itself, and a [Narrator] tells what
// happens.
//
// What is guaranteed in both: nothing waits without a deadline, and a wait that was in vain says what was seen last.
// What was true before the script's last change is never taken for its effect. While the API server is away, create,
// patch and delete are tried again. What a script has started has ended when the script has, also after Ctrl-C.
//
// What an OBJECT, an EXPR and the words in brackets can be, chapters/language.md tells, to readers of the book as well.
//
// [testscript]: https://pkg.go.dev/github.com/rogpeppe/go-internal/testscript
package play
