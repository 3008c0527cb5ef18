package weave

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
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
	mistakes = append(mistakes, w.checkBounds()...)
	mistakes = append(mistakes, w.checkNames()...)
	return append(mistakes, checkPages(w.source.root)...)
}

// checkStages finds stages that do not compile. What is wrong in several is said
// once.
func (w *Book) checkStages() []error {
	var mistakes []error
	said := map[string]bool{}
	for _, chapter := range w.chapters {
		for _, at := range momentsOf(chapter) {
			_, err := w.compiling(at)
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
	}
	return mistakes
}

// checkBounds finds pages of lessons that are too long, and chapters that say otherwise how long they take.
func (w *Book) checkBounds() []error {
	var mistakes []error
	for _, chapter := range w.chapters {
		for _, page := range chapter.Pages {
			if too := page.Size().Exceeds(chapters.Bounds); too != "" && chapter.Lesson(page) {
				mistakes = append(mistakes, fmt.Errorf("%s has %s: move what does not teach to code.md, or make two lessons", page.Path, too))
			}
		}
		if texts, err := chapter.Fill(nil); err == nil && !bytes.Equal(texts[0], chapter.Pages[0].Source) {
			mistakes = append(mistakes, fmt.Errorf("%s says otherwise how long it takes; make weave writes it anew", chapter.Path))
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
				block.Position(line), cmp.Or(block.File, block.Package, block.Wrong, "kcm"), is, ought))
		} else if want != block.Text {
			mistakes = append(mistakes, block.Errorf("%s; make weave writes it anew", outdated(block.Text, want)))
		}
	}
	for _, chapter := range w.chapters {
		for _, e := range chapter.Exercises {
			if e.LacksStub() {
				mistakes = append(mistakes, e.Errorf("the exercise %s does not show what the reader finds: "+
					"write a block ```go stub, without a body, below its first paragraph", e.Name))
			}
		}
	}
	return mistakes, complete
}

// outdated says what is wrong in what stands above or below a block.
func outdated(is, ought chapters.Text) string {
	if is.Caption != ought.Caption {
		return fmt.Sprintf("the caption is %q and has to be %q", is.Caption, ought.Caption)
	}
	return "what is folded below the block is not what has to be there"
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

// checkRosters finds rosters that no chapter shows whole, so that a reader would
// never see what was added to them last. A struct is whole when its fields are
// shown, be it by themselves.
func (w *Book) checkRosters() []error {
	var mistakes []error
	for _, block := range w.blocks() {
		for _, s := range w.shown[block] {
			if !s.roster || s.next != nil || s.declaration.hasFields {
				continue
			}
			whole := s.declaration.text + "\n"
			shown, _ := w.textOf(s, s.shownAt()) // what is wrong is said about the block
			versions, _ := w.versions(s.key)
			if i := slices.IndexFunc(versions, func(v Version) bool { return v.Text == whole }); i >= 0 && shown != whole {
				mistakes = append(mistakes, block.Errorf("%s is last shown here, and whole in chapter %02d: show it there again", s.Name, versions[i].Chapter.Number))
			}
		}
	}
	return mistakes
}
