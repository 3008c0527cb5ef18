package play

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// Script is a script that was read and checked.
type Script struct {
	Path string
	// Steps are the sentences of its steps.
	Steps   []string
	archive *txtar.Archive
	lines   []line
}

// line is one that has words.
type line struct {
	number     int
	conditions []word
	not        bool
	verb       word
	args       []word
}

// word is a part of a line between spaces.
type word struct {
	text string
	// begin is the column where it begins, maybe with a quote, and columns are those of its characters, all counted from 1
	// as editors do.
	begin   int
	columns []int
	// variable tells that it has a part that only running the script makes known.
	variable bool
}

// column is that of a character of the word, counted from 0.
func (w word) column(character int) int {
	if character < len(w.columns) {
		return w.columns[character]
	}
	return w.begin + character // an expression may end too early
}

// Mistake is one in a script.
type Mistake struct {
	Path         string
	Line, Column int
	Err          error
}

func (m *Mistake) Error() string {
	return fmt.Sprintf("%s:%d:%d: %v", m.Path, m.Line, m.Column, m.Err)
}

// ReadScript reads a script, and checks what can be known before it is played: verbs, the number of their arguments,
// expressions, objects, overlays and files. manifests are folders with files that it may use beside its own. The error
// joins a [Mistake] for each line that has one.
func ReadScript(path string, manifests ...string) (*Script, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParseScript(path, string(text), manifests...)
}

// ParseScript reads a script, which mistakes and failures call by its path, from a text.
func ParseScript(path, text string, manifests ...string) (*Script, error) {
	s := &Script{Path: path, archive: txtar.Parse([]byte(text))}
	var mistakes []error
	for i, text := range strings.Split(string(s.archive.Comment), "\n") {
		l, err := parseLine(text)
		l.number = i + 1
		if err == nil && l.verb.text != "" {
			s.lines = append(s.lines, l)
			err = s.checkLine(l, manifests)
		}
		if mistake := (*Mistake)(nil); errors.As(err, &mistake) {
			mistake.Path, mistake.Line = path, l.number
			mistakes = append(mistakes, mistake)
		}
		if l.verb.text == "step" {
			s.Steps = append(s.Steps, strings.Join(texts(l.args), " "))
		}
	}
	if len(s.lines) == 0 && len(mistakes) == 0 {
		return nil, fmt.Errorf("%s has no line with a verb; `make play` lists the verbs", path)
	}
	return s, errors.Join(mistakes...)
}

func texts(words []word) (all []string) {
	for _, w := range words {
		all = append(all, w.text)
	}
	return all
}

// parseLine cuts a line into words as testscript does: at spaces, but for those between single quotes; two of them
// within quotes stand for one.
func parseLine(text string) (line, error) {
	words, err := split(text)
	l := line{}
	for len(words) > 0 && strings.HasPrefix(words[0].text, "[") && strings.HasSuffix(words[0].text, "]") {
		l.conditions, words = append(l.conditions, words[0]), words[1:]
	}
	if len(words) > 0 && words[0].text == "!" {
		l.not, words = true, words[1:]
	}
	if len(words) > 0 {
		l.verb, l.args = words[0], words[1:]
	} else if err == nil && (l.not || len(l.conditions) > 0) {
		err = &Mistake{Column: 1, Err: errors.New("there is no verb in this line")}
	}
	return l, err
}

func split(text string) ([]word, error) {
	var words []word
	inWord, quoted := false, 0 // the column of the quote that is open
	characters := []rune(text)
	for i := 0; i < len(characters); i++ {
		c := characters[i]
		if quoted == 0 && c == '#' {
			break
		}
		if quoted == 0 && strings.ContainsRune(" \t\r", c) {
			inWord = false
			continue
		}
		if !inWord {
			words, inWord = append(words, word{begin: i + 1}), true
		}
		current := &words[len(words)-1]
		if c == '\'' {
			switch doubled := i+1 < len(characters) && characters[i+1] == '\''; {
			case quoted == 0:
				quoted = i + 1
				continue
			case !doubled:
				quoted = 0
				continue
			}
			i++
		}
		current.text += string(c)
		current.columns = append(current.columns, i+1)
		current.variable = current.variable || quoted == 0 && c == '$'
	}
	if quoted > 0 {
		err := errors.New("this quote is not closed; within quotes, two of them stand for one")
		return words, &Mistake{Column: quoted, Err: err}
	}
	return words, nil
}

// builtin are the commands that testscript brings and that scripts use.
var builtin = []string{"stdout", "stderr", "env", "cp", "cmp", "cmpenv", "exists", "grep", "skip"}

// checkLine returns the first mistake in a line.
func (s *Script) checkLine(l line, manifests []string) error {
	for _, c := range l.conditions {
		if _, err := (&Setting{}).holds(strings.TrimPrefix(strings.Trim(c.text, "[]"), "!")); err != nil {
			return &Mistake{Column: c.begin, Err: err}
		}
	}
	v := verbNamed(l.verb.text)
	if v == nil {
		if slices.Contains(builtin, l.verb.text) {
			return nil
		}
		return &Mistake{Column: l.verb.begin, Err: unknownVerb(l.verb.text)}
	}
	found, err := v.check(l.not, texts(l.args))
	if err != nil {
		return &Mistake{Column: l.verb.begin, Err: err}
	}
	for i, w := range l.args {
		if found[i].kind == "VERB" {
			nested := line{verb: w, args: l.args[i+1:]}
			if err := repeatable(l.verb.text, nested.verb.text); err != nil {
				return &Mistake{Column: nested.verb.begin, Err: err}
			}
			return s.checkLine(nested, manifests)
		}
		if err := s.checkArgument(found[i], w, manifests); err != nil {
			return err
		}
	}
	return nil
}

func (s *Script) checkArgument(p parameter, w word, manifests []string) error {
	if w.variable {
		return nil
	}
	_, err := p.read(w.text)
	if p.kind == "FILE" {
		err = s.checkFile(w.text, manifests)
	}
	if err == nil {
		return nil
	}
	column := w.column(0)
	if at := (*expressionError)(nil); errors.As(err, &at) {
		column = w.column(at.column)
	}
	return &Mistake{Column: column, Err: err}
}

func unknownVerb(name string) error {
	return fmt.Errorf("there is no verb %s; `make play` lists those that there are", name)
}

func (s *Script) checkFile(name string, manifests []string) error {
	has := func(f txtar.File) bool { return f.Name == name }
	if slices.ContainsFunc(s.archive.Files, has) {
		return nil
	}
	for _, dir := range manifests {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("there is no file %s after the script's last line, nor in %s", name, strings.Join(manifests, " or "))
}

// NeedsCluster tells whether the script does more than run the manager by itself.
func (s *Script) NeedsCluster() bool {
	alone := append([]string{"step", "only", "say", "show", "let", "check", "kcm"}, builtin...)
	return slices.ContainsFunc(s.lines, func(l line) bool { return !slices.Contains(alone, l.verb.text) })
}

// without returns the script's text without the lines of steps that are left out in a setting. All other lines keep
// their numbers. The line that says why stays.
func (s *Script) without(setting *Setting) []byte {
	lines := strings.Split(string(s.archive.Comment), "\n")
	out := false
	for _, l := range s.lines {
		switch {
		case l.verb.text == "step":
			out = false
		case out:
			lines[l.number-1] = ""
		case l.verb.text == "only" && len(s.Steps) > 0:
			holds, _ := setting.holds(l.args[0].text)
			out = !holds
		}
	}
	copied := *s.archive
	copied.Comment = []byte(strings.Join(lines, "\n"))
	return txtar.Format(&copied)
}
