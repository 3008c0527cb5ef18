package weave

import (
	"errors"
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// addCaption writes what the book says about declarations: above them, where they lie and
// what becomes of them; folded below, what has changed since an earlier chapter.
func (w *Book) addCaption(block *chapters.Block, text *chapters.Text) error {
	var remarks []string
	about := map[string][]string{}
	for _, s := range w.shown[block] {
		changed, err := w.changes(s)
		if err != nil {
			return block.Errorf("%w", err)
		}
		said, err := w.remarks(s, changed)
		if err != nil {
			return block.Errorf("%w", err)
		}
		for _, remark := range said {
			if about[remark] == nil {
				remarks = append(remarks, remark)
			}
			about[remark] = append(about[remark], s.Name)
		}
	}
	parts := []string{w.filesOf(block)}
	for _, remark := range remarks {
		if len(about[remark]) < len(w.shown[block]) {
			remark = quoted(about[remark]) + " " + remark
		}
		parts = append(parts, remark)
	}
	text.Caption, text.Below = caption(strings.Join(parts, " · ")), w.below(block)
	return nil
}

// below folds what has changed, or the whole, where the block shows what has changed. Of a list that grows, the caption
// says what is new.
func (w *Book) below(block *chapters.Block) string {
	var changes, wholes []string
	for _, s := range w.shown[block] {
		switch changed, _ := w.changes(s); { // its error has been told
		case s.roster:
		case s.differs(changed):
			wholes = append(wholes, s.declaration.text+"\n")
		case changed.isShort():
			changes = append(changes, changed.diff)
		}
	}
	switch {
	case wholes != nil:
		return chapters.Fold("As a whole", "```go\n"+strings.Join(wholes, "\n")+"```")
	case changes != nil:
		return chapters.Fold("What has changed", "```diff\n"+strings.Join(changes, "\n")+"```")
	}
	return ""
}

func caption(text string) string { return "<sub>" + text + "</sub>" }

func linkTo(path string) string { return fmt.Sprintf("[%s](../../%s)", path, path) }

func linkToPage(b *chapters.Block) string {
	return fmt.Sprintf("[chapter %02d](../%s)", b.Chapter.Number, strings.TrimPrefix(b.Path, "chapters/"))
}

const theStepBefore, theNextStep = "the step before", "the next step"

// linkFrom links a block to another one, which has some name in the same chapter.
func linkFrom(from, to *chapters.Block, name string) string {
	switch {
	case from.Chapter != to.Chapter:
		return linkToPage(to)
	case from.Path == to.Path:
		return name
	}
	return fmt.Sprintf("[%s](%s)", name, path.Base(to.Path))
}

func quoted(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

func (w *Book) filesOf(block *chapters.Block) string {
	var links []string
	for _, s := range w.shown[block] {
		if link := linkTo(s.File); !slices.Contains(links, link) {
			links = append(links, link)
		}
	}
	return strings.Join(links, ", ")
}

// remarks says what a reader has to know about what is shown: that it is a part of
// something, what is new in it, and what later chapters do with it.
func (w *Book) remarks(s *Shown, changed change) ([]string, error) {
	if s.declaration.of != nil {
		structure := s.declaration.of.names[0]
		if all := w.showings[key{s.Dir, structure}]; len(all) > 0 && all[0].chapter() < s.chapter() {
			return []string{fmt.Sprintf("added to `%s` of %s", structure, linkToPage(all[0].Block))}, nil
		}
		return []string{fmt.Sprintf("part of `%s`", structure)}, nil
	}
	var remarks []string
	if before := s.previous; before != nil {
		where := linkFrom(s.Block, before.Block, theStepBefore)
		if gained := w.gained(s, before.shownAt(), s.shownAt(), changed); len(gained) > 0 {
			remarks = append(remarks, fmt.Sprintf("new since %s: %s", where, quoted(gained)))
		} else if changed.isShort() {
			remarks = append(remarks, "changed since "+where)
		} else {
			remarks = append(remarks, "rewritten since "+where)
		}
	}
	if s.roster {
		grows, err := w.grows(s)
		return append(remarks, grows), err
	}
	if next := s.next; next != nil {
		becomes := "finished"
		if !next.final() {
			becomes = "goes on"
		}
		remarks = append(remarks, fmt.Sprintf("draft, %s in %s", becomes, linkFrom(s.Block, next.Block, theNextStep)))
	}
	return remarks, nil
}

// grows says where a roster is shown with more, or which chapter adds to it, or that this is all.
func (w *Book) grows(s *Shown) (string, error) {
	if s.next != nil {
		return "grows in " + linkFrom(s.Block, s.next.Block, theNextStep), nil
	}
	versions, err := w.versions(s.key)
	for _, v := range versions {
		if v.at > s.shownAt() && v.Chapter == s.Block.Chapter {
			return "grows later in this chapter", err
		} else if v.at > s.shownAt() {
			return fmt.Sprintf("grows in [chapter %02d](../%s/README.md)", v.Chapter.Number, v.Chapter.Slug), err
		}
	}
	return "complete", err
}

// Version is the text that a declaration has from a chapter, or from a step of one, on.
type Version struct {
	at      moment
	Chapter *chapters.Chapter
	// Step is the last one that has it, or "" where the whole chapter has.
	Step, Text string
	// Shown is what shows it in that chapter, or nil where it has changed without being shown.
	Shown *Shown
}

// versions returns the texts that a declaration has from chapter to chapter, and at their steps.
func (w *Book) versions(k key) ([]Version, error) {
	if known := w.versionsOf[k]; known != nil {
		return known, nil
	}
	var all []Version
	for _, chapter := range w.Chapters {
		for _, at := range momentsOf(chapter) {
			latest := w.latest(k, at)
			if latest == nil {
				continue
			}
			text, err := w.textOf(latest, at)
			if err != nil {
				return nil, err
			}
			if n := len(all) - 1; n >= 0 && text == all[n].Text {
				continue
			} else if n >= 0 && chapter == all[n].Chapter {
				all[n].Step = w.step(at - 1)
			}
			if latest.Block.Chapter != chapter || latest.shownAt() > at {
				latest = nil
			}
			all = append(all, Version{at: at, Chapter: chapter, Text: text, Shown: latest})
		}
	}
	w.versionsOf[k] = all
	return all, nil
}

// gained returns what a roster names in one stage, and could not yet name in an earlier one.
func (w *Book) gained(s *Shown, from, to moment, changed change) []string {
	if !s.roster {
		return nil
	}
	then, now := w.hidden(from), w.hidden(to)
	var gained []string
	for node := range ast.Preorder(s.declaration.node) {
		if ident, ok := node.(*ast.Ident); ok && !slices.Contains(gained, ident.Name) {
			if object := s.declaration.pkg.object(ident); then[object] && !now[object] && changed.adds(ident.Name) {
				gained = append(gained, ident.Name)
			}
		}
	}
	return gained
}

// change is what lies between two texts: a diff, and how many lines it adds or takes away of how many.
type change struct {
	diff       string
	lines, all int
}

// differs tells whether a block shows only what has changed since something was shown before: that of a list that goes
// on growing, and of what stands on the same page in an earlier form.
func (s *Shown) differs(changed change) bool {
	again := !s.roster && s.next == nil && s.previous != nil && s.previous.Block.Page == s.Block.Page
	return changed.isShort() && (again || s.roster && s.next != nil)
}

// changes returns what has changed since a declaration was shown before.
func (w *Book) changes(s *Shown) (change, error) {
	if s.previous == nil || s.changed.all > 0 {
		return s.changed, nil
	}
	old, failed := w.textOf(s.previous, s.previous.shownAt())
	now, err := w.textOf(s, s.shownAt())
	if err = errors.Join(failed, err); err == nil {
		s.changed = changeOf(old, now)
	}
	return s.changed, err
}

// isShort tells whether there is a change that says something about the new text. One
// of more than two thirds of the lines does not.
func (c change) isShort() bool { return c.diff != "" && 3*c.lines <= 2*c.all }

// adds tells whether a line with this word has been added.
func (c change) adds(word string) bool {
	return regexp.MustCompile(`(?m)^\+.*\b` + word + `\b`).MatchString(c.diff)
}

func changeOf(old, now string) change {
	c := change{all: strings.Count(old, "\n") + strings.Count(now, "\n")}
	lines := Changes(old, now)
	isChanged := func(line string) bool { return line[0] != ' ' }
	for i, line := range lines {
		if isChanged(line) {
			c.lines++
		}
		if slices.ContainsFunc(lines[max(i-around, 0):min(i+around+1, len(lines))], isChanged) {
			c.diff += strings.TrimRight(line, " ") + "\n"
		} else if !strings.HasSuffix("\n"+c.diff, "\n"+ellipsis) {
			c.diff += ellipsis
		}
	}
	c.diff = strings.TrimSuffix(c.diff, ellipsis)
	return c
}

// around is how many lines a diff has above and below what has changed.
const around = 2

// ellipsis stands in a diff for lines that have not changed.
const ellipsis = "...\n"

// Changes returns all lines of two texts, each behind a sign that says whether it is new, gone or as before: +, - or a
// blank.
func Changes(before, after string) (lines []string) {
	a, b := slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(after))
	add := func(sign string, some []string) {
		for _, line := range some {
			lines = append(lines, sign+strings.TrimSuffix(line, "\n"))
		}
	}
	for _, code := range difflib.NewMatcher(a, b).GetOpCodes() {
		sign := " "
		if code.Tag != 'e' {
			sign = "+"
			add("-", a[code.I1:code.I2])
		}
		add(sign, b[code.J1:code.J2])
	}
	return lines
}
