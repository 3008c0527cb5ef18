package main

import (
	"embed"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"
)

//go:embed formats
var files embed.FS

// formats are templates of what other programs read.
var formats = template.Must(template.New("formats").Funcs(template.FuncMap{
	"env": os.Getenv,
	"now": func() string { return time.Now().UTC().Format(time.RFC3339) },
	"json": func(value any) (string, error) {
		text, err := json.MarshalIndent(value, "", "  ")
		return string(text), err
	},
	"xml": func(text string) (string, error) {
		var out strings.Builder
		err := xml.EscapeText(&out, []byte(text))
		return out.String(), err
	},
}).ParseFS(files, "formats/*"))

// formatOf returns what writes results in a format.
func formatOf(name string) (func(out io.Writer, all []*graded) error, error) {
	if name == "" {
		return table, nil
	}
	if format := formats.Lookup(name); format != nil {
		return func(out io.Writer, all []*graded) error { return format.Execute(out, all) }, nil
	}
	return nil, fmt.Errorf("FORMAT is %q: set it to json, junit, gradescope or classroom50, or to nothing for a table",
		name)
}

// table is for whoever reads it.
func table(out io.Writer, all []*graded) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, g := range all {
		fmt.Fprintf(w, "%s\t%d of %d", g.Name, g.Score, g.Of)
		held, of := 0, 0
		for i, p := range g.Points {
			if of++; p.Holds {
				held++
			}
			if i+1 == len(g.Points) || g.Points[i+1].Exercise != p.Exercise {
				fmt.Fprintf(w, "\t%s %d/%d", p.Exercise, held, of)
				held, of = 0, 0
			}
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
