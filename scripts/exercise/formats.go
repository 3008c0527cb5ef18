package main

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"
)

// formatOf returns what writes results in a format.
func formatOf(name string) (func(out io.Writer, all []*graded) error, error) {
	formats := map[string]func(io.Writer, []*graded) error{
		"":            table,
		"json":        func(out io.Writer, all []*graded) error { return asJSON(out, all) },
		"junit":       func(out io.Writer, all []*graded) error { return junit.Execute(out, all) },
		"gradescope":  func(out io.Writer, all []*graded) error { return asJSON(out, gradescope(all[0])) },
		"classroom50": func(out io.Writer, all []*graded) error { return asJSON(out, classroom50(all[0])) },
	}
	if format := formats[name]; format != nil {
		return format, nil
	}
	return nil, fmt.Errorf("FORMAT is %q: set it to json, junit, gradescope or classroom50, or to nothing for a table", name)
}

func asJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// table is for whoever reads it.
func table(out io.Writer, all []*graded) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, g := range all {
		fmt.Fprintf(w, "%s\t%d of %d", g.Name, g.Score, g.Of)
		var names []string
		held, of := map[string]int{}, map[string]int{}
		for _, p := range g.Points {
			if !slices.Contains(names, p.Exercise) {
				names = append(names, p.Exercise)
			}
			held[p.Exercise] += p.score()
			of[p.Exercise]++
		}
		for _, name := range names {
			fmt.Fprintf(w, "\t%s %d/%d", name, held[name], of[name])
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// junit is what most tools read: a suite for each submission and a case for each
// behaviour.
var junit = template.Must(template.New("").Funcs(template.FuncMap{
	"xml": func(text string) (string, error) {
		var out strings.Builder
		err := xml.EscapeText(&out, []byte(text))
		return out.String(), err
	},
}).Parse(xml.Header + `<testsuites>
{{- range .}}
  <testsuite name="{{xml .Name}}" tests="{{.Of}}" failures="{{.Failures}}">
  {{- $chapter := .Chapter}}{{range .Points}}
    <testcase classname="chapter{{printf "%02d" $chapter}}.{{.Exercise}}" name="{{xml .Sentence}}">
      {{- if not .Holds}}<failure message="does not hold">{{xml .Said}}</failure>{{end}}</testcase>
  {{- end}}
  </testsuite>
{{- end}}
</testsuites>
`))

// gradescope is results.json as Gradescope's autograders write it
// (https://gradescope-autograders.readthedocs.io/en/latest/specs/).
func gradescope(g *graded) map[string]any {
	tests := []map[string]any{}
	for _, p := range g.Points {
		status := "failed"
		if p.Holds {
			status = "passed"
		}
		tests = append(tests, map[string]any{
			"name": p.name(), "score": p.score(), "max_score": 1, "status": status, "output": p.Said,
		})
	}
	return map[string]any{"score": g.Score, "visibility": "visible", "tests": tests}
}

// classroom50 is result.json as Classroom 50's autograders write it
// (https://github.com/foundation50/classroom50/wiki/Advanced-Autograding). Its runner
// says in the environment whose submission it is, and writes the owner into it itself.
func classroom50(g *graded) map[string]any {
	tests := []map[string]any{}
	for _, p := range g.Points {
		tests = append(tests, map[string]any{"test-name": p.name(), "passed": p.Holds, "score": p.score(), "max-score": 1})
	}
	return map[string]any{
		"schema": "classroom50/result/v1", "classroom": os.Getenv("CLASSROOM"), "assignment": os.Getenv("ASSIGNMENT"),
		"owner": cmp.Or(os.Getenv("OWNER"), os.Getenv("USERNAME")), "submission": os.Getenv("SUBMISSION_TAG"), "commit": os.Getenv("COMMIT_URL"),
		"release": os.Getenv("RELEASE_URL"), "review": cmp.Or(os.Getenv("REVIEW_URL"), os.Getenv("COMMIT_URL")), "datetime": time.Now().UTC().Format(time.RFC3339),
		"score": g.Score, "max-score": g.Of, "tests": tests,
	}
}
