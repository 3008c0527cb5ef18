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

// data matches what may be base64. Paths look like it, too, but hardly ones with
// capital letters and digits.
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

// same tells whether output is what a chapter shows of it.
func same(shown, output string) bool {
	return match(normalLines(shown), normalLines(output))
}

func normalLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, normal(line))
	}
	return lines
}

// match tells whether the lines of output are those that are shown, with any
// number of others for each ellipsis.
func match(shown, output []string) bool {
	at := 0                     // in shown
	ellipsisAt, resume := -1, 0 // the last ellipsis, and the output behind what it stands for
	for i := 0; i < len(output); {
		switch {
		case at < len(shown) && shown[at] == ellipsis:
			ellipsisAt, resume = at, i
			at++
		case at < len(shown) && shown[at] == output[i]:
			at++
			i++
		case ellipsisAt >= 0:
			resume++
			at, i = ellipsisAt+1, resume
		default:
			return false
		}
	}
	for at < len(shown) && shown[at] == ellipsis {
		at++
	}
	return at == len(shown)
}
