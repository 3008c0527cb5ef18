package weave

import (
	"slices"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// moment is how far a reader has come: the chapter, and how many of its steps.
type moment int

const steps, never = 100, 1000 // in a chapter, and a chapter that there is not

func momentOf(chapter, after int) moment { return moment(chapter*steps + after) }

// endOf is when a chapter ends.
func endOf(chapter int) moment { return momentOf(chapter, steps-1) }

// momentsOf returns when a reader of a chapter has a program: at its steps, and at its end.
func momentsOf(c *chapters.Chapter) []moment {
	var all []moment
	for after := range len(c.Steps) + 1 {
		all = append(all, momentOf(c.Number, after))
	}
	return all
}

// step returns the name of the step that a moment is, or "" at the end of a chapter.
func (w *Book) step(at moment) string {
	number, after := int(at/steps), int(at%steps)
	i := slices.IndexFunc(w.Chapters, func(c *chapters.Chapter) bool { return c.Number == number })
	if i < 0 || after >= len(w.Chapters[i].Steps) {
		return ""
	}
	return w.Chapters[i].Steps[after]
}

// latest returns the form that a declaration has at a moment, or nil.
func (w *Book) latest(k key, at moment) *Shown {
	var latest *Shown
	for _, s := range w.showings[k] {
		if s.at() <= at {
			latest = s
		}
	}
	return latest
}

// compiling returns the stage of a moment, and what keeps it from compiling.
func (w *Book) compiling(at moment) (*Stage, error) {
	s, err := w.stage(at, nil)
	if err == nil {
		err = s.check()
	}
	return s, err
}
