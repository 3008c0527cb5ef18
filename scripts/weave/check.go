package main

import (
	"fmt"
	"strings"
)

// check returns everything that is wrong with the book.
func (w *Weave) check() []error {
	var mistakes []error
	for _, chapter := range w.chapters {
		for _, block := range chapter.Blocks {
			want, err := w.body(block)
			if err != nil {
				mistakes = append(mistakes, err)
				continue
			}
			if want != block.Body {
				line, is, ought := firstDifference(block.Body, want)
				mistakes = append(mistakes, fmt.Errorf("%s: differs from %s: it says %q, the code says %q; make weave fills the block anew",
					block.Position(line), block.Info[1], is, ought))
			}
		}
	}
	missing, _ := w.unshown()
	for _, d := range missing {
		mistakes = append(mistakes, fmt.Errorf("%s/%s:%d: no chapter shows %s", d.pkg.dir, d.file.name, d.line, d.names[0]))
	}
	if len(missing) == 0 {
		for _, chapter := range w.chapters {
			if _, err := w.compiling(chapter.Number); err != nil {
				mistakes = append(mistakes, err)
			}
		}
		mistakes = append(mistakes, w.checkComplete()...)
	}
	mistakes = append(mistakes, checkLinks(w.source.root)...)
	return append(mistakes, checkDiagrams(w.source.root)...)
}

// checkComplete finds what lacks its final form even after the last chapter.
func (w *Weave) checkComplete() []error {
	last := w.chapters[len(w.chapters)-1].Number
	s := &Stage{weave: w, number: last}
	var mistakes []error
	for _, dir := range w.source.dirs() {
		for _, d := range w.source.packages[dir].declarations {
			if !s.hasFinal(d) {
				mistakes = append(mistakes, fmt.Errorf("%s/%s:%d: %s lacks something even in chapter %02d", d.pkg.dir, d.file.name, d.line, d.names[0], last))
			}
		}
	}
	return mistakes
}

// firstDifference returns the first line, counted from 0, in which two texts
// differ, and what stands there.
func firstDifference(a, b string) (line int, inA, inB string) {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	for line < len(left) && line < len(right) && left[line] == right[line] {
		line++
	}
	at := func(lines []string) string {
		if line < len(lines) {
			return strings.TrimSpace(lines[line])
		}
		return ""
	}
	return line, at(left), at(right)
}

// compiling returns a stage that compiles.
func (w *Weave) compiling(number int) (*Stage, error) {
	known := false
	for _, chapter := range w.chapters {
		known = known || chapter.Number == number
	}
	if !known {
		return nil, fmt.Errorf("there is no chapter %02d: the book goes to %02d", number, w.chapters[len(w.chapters)-1].Number)
	}
	s, err := w.stage(number)
	if err != nil {
		return nil, err
	}
	return s, s.check()
}
