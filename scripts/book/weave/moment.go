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

// step returns the step that a moment is, or nil at the end of a chapter.
func (w *Book) step(at moment) *chapters.Step {
	number, after := int(at/steps), int(at%steps)
	i := slices.IndexFunc(w.chapters, func(c *chapters.Chapter) bool { return c.Number == number })
	if i < 0 || after >= len(w.chapters[i].Steps) {
		return nil
	}
	return &w.chapters[i].Steps[after]
}

// has tells whether the stage of a moment has a showing, or a later one in its place.
func (w *Book) has(s *Shown, at moment) bool { return s.at() <= at && !w.left[at][s] }

// latest returns the form that a declaration has at a moment, or nil.
func (w *Book) latest(k key, at moment) *Shown {
	var latest *Shown
	for _, s := range w.showings[k] {
		if w.has(s, at) {
			latest = s
		}
	}
	return latest
}

// compiling returns a stage that compiles. At a step, what of the rest of the chapter's
// code does not compile yet is left for later: it is about what the lesson shows after
// the step.
func (w *Book) compiling(at moment) (*Stage, error) {
	for {
		s, err := w.stage(at, nil)
		if err == nil {
			err = s.check()
		}
		if w.step(at) == nil || !w.leave(s) {
			return s, err
		}
	}
}

// leave leaves for later what failed of the rest of the code, and tells whether there
// was something.
func (w *Book) leave(s *Stage) bool {
	found := false
	for showing := range s.failed {
		if showing.chapter() != s.number || !showing.Block.OfRest() {
			continue
		}
		if w.left[s.at] == nil {
			w.left[s.at] = map[*Shown]bool{}
		}
		w.left[s.at][showing], found = true, true
	}
	delete(w.hiddenIn, s.at)
	return found
}
