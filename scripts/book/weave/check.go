package weave

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// mistakes returns everything that is wrong with the book.
func (w *Book) mistakes() []error {
	filled, err := w.filled()
	mistakes := w.checkTexts(filled, err)
	missing, _ := w.unshown()
	for _, d := range missing {
		mistakes = append(mistakes, d.file.at(d.line).Errorf("no chapter shows %s", d.names[0]))
	}
	if err == nil && len(missing) == 0 {
		mistakes = slices.Concat(mistakes, w.checkStages(), w.checkRosters())
	}
	_, err = w.Exercises(never)
	mistakes = slices.Concat(mistakes, []error{err}, w.checkBounds(), checkPages(w.source.root))
	return slices.DeleteFunc(mistakes, func(mistake error) bool { return mistake == nil })
}

// checkStages finds stages that do not compile. What is wrong in several is said once.
func (w *Book) checkStages() []error {
	var mistakes []error
	said := map[string]bool{}
	for _, chapter := range w.Chapters {
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

// checkBounds finds pages of lessons that are too long, lessons that do not say how long, and exercises that do not
// show what the reader finds.
func (w *Book) checkBounds() []error {
	var mistakes []error
	for _, chapter := range w.Chapters {
		if !chapter.Timed() {
			mistakes = append(mistakes, fmt.Errorf("%s does not say how long it takes: "+
				"write <sub>To read: .</sub> below its title", chapter.Path))
		}
		for _, page := range chapter.Pages {
			if too := page.Size().Exceeds(chapters.Bounds); too != "" && !page.Code() {
				mistakes = append(mistakes, fmt.Errorf("%s has %s: move what does not teach to code.md, or make two lessons",
					page.Path, too))
			}
		}
		for _, e := range chapter.Exercises {
			if e.LacksStub() {
				mistakes = append(mistakes, e.Errorf("the exercise %s does not show what the reader finds: "+
					"write a block ```go stub, without a body, below its first paragraph", e.Name))
			}
		}
	}
	return mistakes
}

// checkTexts finds what is not as [Book.Fill] would write it, and what keeps that from being known.
func (w *Book) checkTexts(filled map[*chapters.Chapter][][]byte, failed error) []error {
	is, ought, mistakes := w.readNames()
	if failed != nil {
		return append(mistakes, failed)
	}
	differ := func(path, is, ought string) {
		left, right := append(strings.Split(is, "\n"), ""), append(strings.Split(ought, "\n"), "")
		for i := range min(len(left), len(right)) {
			if left[i] != right[i] {
				mistakes = append(mistakes, fmt.Errorf("%s:%d: it says %q and ought to say %q; make weave writes it anew",
					path, i+1, strings.TrimSpace(left[i]), strings.TrimSpace(right[i])))
				return
			}
		}
	}
	differ(nameFile, is, ought)
	for _, chapter := range w.Chapters {
		for i, page := range chapter.Pages {
			differ(page.Path, string(page.Source), string(filled[chapter][i]))
		}
	}
	return mistakes
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
			versions, _ := w.versions(s.key) // what is wrong is said about the block
			if n := len(versions) - 1; n >= 0 && versions[n].at > s.shownAt() {
				mistakes = append(mistakes, block.Errorf("%s is last shown here, and whole in chapter %02d: show it there again",
					s.Name, versions[n].Chapter.Number))
			}
		}
	}
	return mistakes
}
