package play

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"
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
	// column is where its text begins, counted from 1 as editors do.
	column int
	// variable tells that it has a part that only running the script makes known.
	variable bool
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

func (m *Mistake) Unwrap() error { return m.Err }

// ReadScript reads a script, and checks what can be known before it is played:
// verbs, the number of their arguments, expressions, objects, overlays and files.
// manifests are folders with files that it may use beside its own. The error
// joins a [Mistake] for each line that has one.
func ReadScript(path string, manifests ...string) (*Script, error) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return nil, err
	}
	s := &Script{Path: path, archive: archive}
	var mistakes []error
	for i, text := range strings.Split(string(archive.Comment), "\n") {
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
			s.Steps = append(s.Steps, texts(l.args))
		}
	}
	return s, errors.Join(mistakes...)
}

func texts(words []word) string {
	var all []string
	for _, w := range words {
		all = append(all, w.text)
	}
	return strings.Join(all, " ")
}

// parseLine cuts a line into words as testscript does: at spaces, but for those
// between single quotes; two of them within quotes stand for one.
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
	var current *word
	quoted := 0 // the column of the quote that is open
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted == 0 && (c == ' ' || c == '\t' || c == '\r' || c == '#'):
			current = nil
			if c == '#' {
				return words, nil
			}
			continue
		case current == nil:
			words = append(words, word{column: i + 1})
			current = &words[len(words)-1]
		}
		switch {
		case c != '\'':
			current.text += string(c)
			current.variable = current.variable || quoted == 0 && c == '$'
		case quoted == 0:
			quoted = i + 1
			if current.text == "" {
				current.column = i + 2
			}
		case i+1 < len(text) && text[i+1] == '\'':
			current.text += "'"
			i++
		default:
			quoted = 0
		}
	}
	if quoted > 0 {
		return words, &Mistake{Column: quoted, Err: errors.New("this quote is not closed; within quotes, two of them stand for one")}
	}
	return words, nil
}

// builtin are the commands that testscript brings and that scripts use.
var builtin = []string{"stdout", "stderr", "env", "cp", "cmp", "cmpenv", "exists", "grep", "skip"}

// checkLine returns the first mistake in a line.
func (s *Script) checkLine(l line, manifests []string) error {
	for _, c := range l.conditions {
		name := strings.TrimPrefix(strings.Trim(c.text, "[]"), "!")
		if !slices.Contains(conditions, name) {
			return &Mistake{Column: c.column, Err: fmt.Errorf("unknown condition %s; there are %s", c.text, strings.Join(conditions, ", "))}
		}
	}
	v := verbNamed(l.verb.text)
	if v == nil {
		if slices.Contains(builtin, l.verb.text) {
			return nil
		}
		return &Mistake{Column: l.verb.column, Err: unknownVerb(l.verb.text)}
	}
	args := make([]string, len(l.args))
	for i, w := range l.args {
		args[i] = w.text
	}
	found, err := v.check(l.not, args)
	if err != nil {
		return &Mistake{Column: l.verb.column, Err: err}
	}
	if at := slices.IndexFunc(found, func(p parameter) bool { return p.kind == "VERB" }); at >= 0 {
		nested := line{verb: l.args[at], args: l.args[at+1:]}
		if err := repeatable(l.verb.text, nested.verb.text); err != nil {
			return &Mistake{Column: nested.verb.column, Err: err}
		}
		if err := s.checkLine(nested, manifests); err != nil {
			return err
		}
	}
	for i, w := range l.args {
		check := kinds[found[i].kind]
		if check == nil || w.variable {
			continue
		}
		if err := check(w.text); err != nil {
			column := w.column
			if at := (*expressionError)(nil); errors.As(err, &at) {
				column += at.column
			}
			return &Mistake{Column: column, Err: err}
		}
	}
	if file := slices.IndexFunc(found, func(p parameter) bool { return p.kind == "FILE" }); file >= 0 && !l.args[file].variable {
		return s.checkFile(l.args[file], manifests)
	}
	return nil
}

func unknownVerb(name string) error {
	var all []string
	for _, v := range verbs {
		all = append(all, v.name)
	}
	return fmt.Errorf("there is no verb %s; there are %s", name, strings.Join(append(all, builtin...), ", "))
}

func (s *Script) checkFile(w word, manifests []string) error {
	has := func(f txtar.File) bool { return f.Name == w.text }
	if slices.ContainsFunc(s.archive.Files, has) {
		return nil
	}
	for _, dir := range manifests {
		if _, err := os.Stat(filepath.Join(dir, w.text)); err == nil {
			return nil
		}
	}
	return &Mistake{Column: w.column, Err: fmt.Errorf("there is no file %s after the script's last line, nor in %s", w.text, strings.Join(manifests, " or "))}
}

// kinds check arguments by the names that usages give them.
var kinds = map[string]func(string) error{
	"EXPR":      func(arg string) error { _, err := compile(arg); return err },
	"OBJECT":    func(arg string) error { _, err := parseOperand(arg); return err },
	"REGEXP":    func(arg string) error { _, err := regexp.Compile(arg); return err },
	"OVERLAY":   func(arg string) error { _, err := yaml.YAMLToJSONStrict([]byte(arg)); return err },
	"COUNT":     number,
	"CODE":      number,
	"SIGNAL":    func(arg string) error { _, err := signalNamed(arg); return err },
	"COMPONENT": nil, // of an event it may be any
	"WHERE":     func(arg string) error { _, err := (&Setting{}).holds(arg); return err },
	"--every": func(arg string) error {
		_, err := time.ParseDuration(strings.TrimPrefix(arg, "--every="))
		return err
	},
}

func number(arg string) error {
	if _, err := strconv.Atoi(arg); err != nil {
		return fmt.Errorf("%s is not a number", arg)
	}
	return nil
}

// text is the script's lines, with the values of the variables in them.
func (s *Script) text(value func(string) string) string {
	return os.Expand(string(s.archive.Comment), value)
}

// NeedsCluster tells whether the script does more than run the manager by itself.
func (s *Script) NeedsCluster() bool {
	alone := append([]string{"step", "only", "say", "show", "let", "check", "kcm", "listen"}, builtin...)
	return slices.ContainsFunc(s.lines, func(l line) bool { return !slices.Contains(alone, l.verb.text) })
}

// without returns the script's text without the lines of steps that are left out
// in a setting. All other lines keep their numbers. The line that says why stays.
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
	copied.Comment = []byte(strings.Join(lines, "\n") + "\nstep\n") // which ends the last one
	return txtar.Format(&copied)
}
