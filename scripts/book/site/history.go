package site

import (
	"fmt"

	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

// version is a declaration as of a chapter, or of a step of it.
type version struct {
	// Chapter is its number, with the step behind it, Address where it is shown there, or "" where it is not.
	Chapter string `json:"chapter"`
	Address string `json:"address,omitempty"`
	// Lines are those of its text, each behind a sign that says whether it is new, gone or as before: +, - or a blank.
	Lines []string `json:"lines"`
}

// histories returns, as a script that a page loads when it is asked for, how each declaration that changes does so.
func (s *Site) histories() ([]byte, error) {
	all := map[string][]version{}
	for _, shown := range s.view.All {
		if len(shown.History) < 2 || all[anchorOf(shown)] != nil {
			continue
		}
		before := ""
		for _, then := range shown.History {
			v := version{Chapter: fmt.Sprintf("%02d", then.Chapter.Number), Lines: weave.Changes(before, then.Text)}
			if then.Step != "" {
				v.Chapter += ", " + then.Step
			}
			if then.Shown != nil {
				v.Address = s.addressOf(then.Shown)
			}
			all[anchorOf(shown)] = append(all[anchorOf(shown)], v)
			before = then.Text
		}
	}
	return asScript("histories", all)
}
