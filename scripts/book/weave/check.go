package weave

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// mistakes returns everything that is wrong with the book.
func (w *Book) mistakes() []error {
	mistakes, complete := w.checkBlocks()
	missing, _ := w.unshown()
	for _, d := range missing {
		mistakes = append(mistakes, fmt.Errorf("%s/%s:%d: no chapter shows %s", d.pkg.dir, d.file.name, d.line, d.names[0]))
	}
	if complete && len(missing) == 0 {
		mistakes = append(mistakes, w.checkStages()...)
		mistakes = append(mistakes, w.checkRosters()...)
	}
	if _, err := w.Exercises(never); err != nil {
		mistakes = append(mistakes, err)
	}
	mistakes = append(mistakes, w.checkNames()...)
	mistakes = append(mistakes, checkLinks(w.source.root)...)
	mistakes = append(mistakes, checkDiagrams(w.source.root)...)
	mistakes = append(mistakes, checkQuestions(w.source.root)...)
	return append(mistakes, checkDifferences(w.source.root)...)
}

// checkStages finds stages that do not compile. What is wrong in several is said
// once.
func (w *Book) checkStages() []error {
	var mistakes []error
	said := map[string]bool{}
	for _, chapter := range w.chapters {
		_, err := w.compiling(chapter.Number)
		if err == nil {
			continue
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !said[line] {
				said[line] = true
				mistakes = append(mistakes, errors.New(line))
			}
		}
	}
	return mistakes
}

// checkBlocks finds blocks that hold something else than they ought to. It is
// not complete where it cannot be told what that is.
func (w *Book) checkBlocks() (mistakes []error, complete bool) {
	complete = true
	for _, block := range w.blocks() {
		want, err := w.content(block)
		if err != nil {
			complete = false
			mistakes = append(mistakes, err)
		} else if want.Body != block.Body {
			line, is, ought := firstDifference(block.Body, want.Body)
			mistakes = append(mistakes, fmt.Errorf("%s: differs from %s: it says %q, the code says %q; make weave fills the block anew",
				block.Position(line), cmp.Or(block.File(), block.Info[1]), is, ought))
		} else if want != block.Text {
			mistakes = append(mistakes, block.Errorf("%s; make weave writes it anew", outdated(block.Text, want)))
		}
	}
	return mistakes, complete
}

// outdated says what is wrong in what stands above or below a block.
func outdated(is, ought chapters.Text) string {
	if is.Caption != ought.Caption {
		return fmt.Sprintf("the caption is %q and has to be %q", is.Caption, ought.Caption)
	}
	return "what has changed since an earlier chapter is not what stands below the block"
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
func (w *Book) compiling(number int) (*Stage, error) {
	s, err := w.stage(number, nil)
	if err != nil {
		return nil, err
	}
	return s, s.check()
}

// checkRosters finds rosters that no chapter shows whole, so that a reader would
// never see what was added to them last. A struct is whole when its fields are
// shown, be it by themselves.
func (w *Book) checkRosters() []error {
	var mistakes []error
	for _, block := range w.blocks() {
		for _, s := range w.shown[block] {
			all := w.showings[s.key]
			if !s.roster || s != all[len(all)-1] || s.declaration.structure() != nil {
				continue
			}
			for _, chapter := range w.chapters {
				text, err := w.textOf(s, max(chapter.Number, s.chapter()))
				if err == nil && text == s.declaration.text+"\n" {
					if chapter.Number > s.chapter() {
						mistakes = append(mistakes, block.Errorf("%s is last shown here, and whole in chapter %02d: show it there again", s.name, chapter.Number))
					}
					break
				}
			}
		}
	}
	return mistakes
}
