package sessions

import (
	"regexp"
	"strings"
)

// generated is what Kubernetes puts at the end of a generated name.
const generated = `[bcdfghjklmnpqrstvwxz2456789]`

// replacements turn what differs from run to run into something that does not.
var replacements = []struct {
	pattern *regexp.Regexp
	with    string
}{
	// kubectl says so when the API server ends a watch, which it does when it likes.
	{regexp.MustCompile(`(?m)^[IW]\d{4} .* reflector\.go:\d+\] "Warning: watch ended with error".*\n`), ""},
	{regexp.MustCompile(`eyJ[\w-]+(\.[\w-]+)*`), "TOKEN"},
	{regexp.MustCompile(`-----BEGIN [A-Z ]+-----`), "PEM"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`-` + generated + `{7,10}-` + generated + `{5}\b`), "-HASH-NAME"},
	{regexp.MustCompile(`-` + generated + `{8,10}\b`), "-HASH"},
	{regexp.MustCompile(`-` + generated + `{5}\b`), "-NAME"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d( GMT)?`), "TIME"},
	{regexp.MustCompile(`\b([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ([\w./]+\.go):\d+\]`), "${1}TIME PID ${2}]"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?\b`), "TIME"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(h|m|s|ms|µs))+\b`), "DURATION"},
	{regexp.MustCompile(`\b(\d{1,3}\.){3}\d{1,3}(:\d+)?\b`), "ADDRESS"},
	{regexp.MustCompile(`(localhost|\[::1?\]):\d+`), "ADDRESS"},
	{regexp.MustCompile(`(?i)(resourceVersion"?[:=] ?"?)\d+`), "${1}VERSION"},
	{regexp.MustCompile(`(template-hash[":=]+)[a-z0-9]+`), "${1}HASH"},
	{regexp.MustCompile(`(?i)(\bpid"?[:= ]"?)\d+`), "${1}PID"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

// data matches what may be base64. Paths look like it, too, but hardly ones with capital letters and digits.
var data = regexp.MustCompile(`[A-Za-z0-9+/]{40,}={0,2}`)

// normal returns a line without what differs from run to run.
func normal(line string) string {
	for {
		before := line
		line = data.ReplaceAllStringFunc(line, func(text string) string {
			if strings.ContainsAny(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") && strings.ContainsAny(text, "0123456789") {
				return "DATA"
			}
			return text
		})
		for _, r := range replacements {
			line = r.pattern.ReplaceAllString(line, r.with)
		}
		line = strings.TrimSpace(line)
		if line == before {
			return line // what is left when a part has gone has no more of them
		}
	}
}

// ellipsis stands in a chapter for lines that it leaves out.
const ellipsis = "..."

// same tells whether output is what a chapter shows of it, with any number of other lines for each ellipsis.
func same(shown, output string) bool {
	pattern, lines := `^`, ""
	for line := range strings.Lines(shown) {
		if line = normal(line); line == ellipsis {
			pattern += `(?:.*\n)*`
		} else {
			pattern += regexp.QuoteMeta(strings.ToValidUTF8(line, "?")) + `\n`
		}
	}
	for line := range strings.Lines(output) {
		lines += strings.ToValidUTF8(normal(line), "?") + "\n"
	}
	return regexp.MustCompile(pattern + `$`).MatchString(lines)
}
