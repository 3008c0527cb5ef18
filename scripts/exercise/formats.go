package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"
)

// table is for whoever reads it.
func table(out io.Writer, all []*graded) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, g := range all {
		fmt.Fprintf(w, "%s\t%d of %d", g.Name, g.Score, g.Of)
		names, points := g.byExercise()
		for _, name := range names {
			held := 0
			for _, p := range points[name] {
				if p.Holds {
					held++
				}
			}
			fmt.Fprintf(w, "\t%s %d/%d", name, held, len(points[name]))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// junit writes what most tools read: a suite for each submission and a case for each
// behaviour.
func junit(out io.Writer, all []*graded) error {
	type failure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	type testCase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Failure *failure `xml:"failure,omitempty"`
	}
	type suite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	type suites struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []suite  `xml:"testsuite"`
	}
	var report suites
	for _, g := range all {
		s := suite{Name: g.Name, Tests: g.Of, Failures: g.Of - g.Score}
		for _, p := range g.Points {
			c := testCase{Class: fmt.Sprintf("chapter%02d.%s", g.Chapter, p.Exercise), Name: p.Sentence}
			if !p.Holds {
				c.Failure = &failure{Message: "does not hold", Text: p.Said}
			}
			s.Cases = append(s.Cases, c)
		}
		report.Suites = append(report.Suites, s)
	}
	if _, err := io.WriteString(out, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(out)
	encoder.Indent("", "  ")
	if err := encoder.Encode(report); err != nil {
		return err
	}
	_, err := io.WriteString(out, "\n")
	return err
}

// gradescope writes results.json as Gradescope's autograders do
// (https://gradescope-autograders.readthedocs.io/en/latest/specs/).
func gradescope(out io.Writer, all []*graded) error {
	type test struct {
		Name     string  `json:"name"`
		Score    float64 `json:"score"`
		MaxScore float64 `json:"max_score"`
		Status   string  `json:"status"`
		Output   string  `json:"output,omitempty"`
	}
	tests := []test{}
	for _, p := range all[0].Points {
		t := test{Name: p.Exercise + ": " + p.Sentence, MaxScore: 1, Status: "failed", Output: p.Said}
		if p.Holds {
			t.Score, t.Status = 1, "passed"
		}
		tests = append(tests, t)
	}
	return indentedJSON(out, map[string]any{"score": float64(all[0].Score), "visibility": "visible", "tests": tests})
}

// classroom50 writes result.json as Classroom 50's autograders do
// (https://github.com/foundation50/classroom50/wiki/Advanced-Autograding). Its runner
// says in the environment whose submission it is, and writes the owner into it itself.
func classroom50(out io.Writer, all []*graded) error {
	type test struct {
		Name     string `json:"test-name"`
		Passed   bool   `json:"passed"`
		Score    int    `json:"score"`
		MaxScore int    `json:"max-score"`
	}
	tests := []test{}
	for _, p := range all[0].Points {
		t := test{Name: p.Exercise + ": " + p.Sentence, Passed: p.Holds, MaxScore: 1}
		if p.Holds {
			t.Score = 1
		}
		tests = append(tests, t)
	}
	return indentedJSON(out, map[string]any{
		"schema": "classroom50/result/v1", "classroom": os.Getenv("CLASSROOM"), "assignment": os.Getenv("ASSIGNMENT"),
		"owner": cmp.Or(os.Getenv("OWNER"), os.Getenv("USERNAME")), "submission": os.Getenv("SUBMISSION_TAG"), "commit": os.Getenv("COMMIT_URL"),
		"release": os.Getenv("RELEASE_URL"), "review": cmp.Or(os.Getenv("REVIEW_URL"), os.Getenv("COMMIT_URL")), "datetime": time.Now().UTC().Format(time.RFC3339),
		"score": all[0].Score, "max-score": all[0].Of, "tests": tests,
	})
}
