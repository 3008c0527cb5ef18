package behaviours

import (
	"path"
	"regexp"
	"strings"
)

// module is where the code of a workspace lives.
const module = "github.com/kcm-book/kcm-book/"

// call is one on a stack, in two lines: the function, and the place.
var call = regexp.MustCompile(
	`(?m)^\s*(created by )?(\S+?)(?:\([^()\n]*\))?(?: in goroutine \d+)?\n\s+(\S+\.(?:go|s)):(\d+)(?: .*)?$\n?`)

// types are those for which a function is compiled.
var types = regexp.MustCompile(`\[.*\]`)

// ownCalls writes each call on a stack in one line, and leaves out those of Go, the tester and libraries.
func ownCalls(text string) string {
	return call.ReplaceAllStringFunc(text, func(lines string) string {
		parts := call.FindStringSubmatch(lines)
		name, own := strings.CutPrefix(parts[2], module)
		if !own || parts[1] != "" {
			return ""
		}
		name, _, _ = strings.Cut(types.ReplaceAllString(name, ""), ".func")
		at := strings.LastIndexByte(name, '/') + 1
		dir, function, _ := strings.Cut(name[at:], ".")
		return "  " + name[:at] + dir + "/" + path.Base(parts[3]) + ":" + parts[4] + "  " + function + "\n"
	})
}

// goroutine is one in what a program prints of all when it is told to quit.
var goroutine = regexp.MustCompile(`(?ms)^goroutine \d+ [^\[\n]*\[([^\]\(,\n]+)[^\n]*\n(.*?)(?:\n\n|\z)`)

// hang says of a program that was told to quit which call of the reader's has not returned: the innermost one of a
// goroutine of a test, if it is no test's itself. It is certain where nothing in the program ran any more.
func hang(dump string) (said string, certain bool) {
	certain = true
	for _, g := range goroutine.FindAllStringSubmatch(dump, -1) {
		state, calls := strings.TrimSpace(g[1]), ownCalls(g[2]+"\n")
		certain = certain && !strings.HasPrefix(state, "run")
		innermost, _, _ := strings.Cut(calls, "\n")
		if said != "" || !strings.Contains(calls, "_test.go") || strings.Contains(innermost, "_test.go") {
			continue
		}
		does := "it waits (" + state + ")"
		switch {
		case strings.HasPrefix(state, "run"):
			does = "it runs without an end"
		case strings.HasPrefix(state, "sync.") && strings.Contains(state, "Lock"):
			does = "it waits for a lock that an earlier call has kept, or takes one twice"
		}
		said = innermost[strings.LastIndexByte(innermost, ' ')+1:] + " does not return: " + does + "\n" + calls
	}
	return said, certain && said != ""
}
