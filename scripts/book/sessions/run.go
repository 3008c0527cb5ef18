// Package sessions runs what the chapters of the book tell their readers to type, and keeps what they show of it true.
//
// What sh and console blocks are, and what of their output may differ from run to run, CONTRIBUTING.md tells. Those of
// a chapter are one session, on a cluster of its own that is not the one of make cluster.
package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// Run runs the sessions of the chapters with these numbers, or of all, four side by side: most of the time they wait.
// With fill, it puts in what is printed where it differs from what a chapter shows; else its error says where.
func Run(ctx context.Context, root string, numbers []string, fill bool, out io.Writer) error {
	all, err := chapters.Read(root, numbers...)
	if err != nil {
		return err
	}
	exchanges := map[*chapters.Chapter][]*exchange{}
	for _, chapter := range all {
		if exchanges[chapter], err = exchangesOf(chapter); err != nil {
			return err
		}
	}
	all = slices.DeleteFunc(all, func(chapter *chapters.Chapter) bool { return len(exchanges[chapter]) == 0 })
	var ports sync.Mutex
	return chapters.Each(ctx, all, 4, out, func(chapter *chapters.Chapter) (string, error) {
		if listens(exchanges[chapter]) {
			ports.Lock()
			defer ports.Unlock()
		}
		return fmt.Sprintf("%d commands", len(exchanges[chapter])), runChapter(ctx, root, chapter, exchanges[chapter], fill)
	})
}

// port matches where a chapter's programs listen.
var port = regexp.MustCompile(`(?:127\.0\.0\.1:|--secure-port[ =])[1-9]\d+`)

// listens tells whether a chapter's commands name a port, which another chapter's may name, too. Such chapters run one
// after the other.
func listens(exchanges []*exchange) bool {
	return slices.ContainsFunc(exchanges, func(e *exchange) bool { return port.MatchString(e.command) })
}

func runChapter(
	ctx context.Context, root string, chapter *chapters.Chapter, exchanges []*exchange, fill bool,
) (err error) {
	s, err := openSession(root, fmt.Sprintf("%s/%02d", labDirectory, chapter.Number))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	// A log that an earlier session has left would be cut while the new one begins to read it.
	if _, err := s.run(ctx, fmt.Sprintf("rm -f /tmp/kcm-%02d*.log", chapter.Number)); err != nil {
		return err
	}
	texts := map[*chapters.Block]chapters.Text{}
	var differences []error
	for _, e := range exchanges {
		do, where := s.observe, fmt.Sprintf("%s: %s", e.block.Position(e.line), strings.TrimSpace(e.command))
		if e.block.Shell() {
			do = s.setUp
		}
		out, err := do(ctx, e)
		switch {
		case err != nil:
			return errors.Join(append(differences, fmt.Errorf("%s: %w; so far it has printed:\n%s", where, err, out))...)
		case e.block.Shell():
			continue
		case same(e.shown, out):
			out = e.shown
		case !fill:
			differences = append(differences, fmt.Errorf("%s\nprints\n%s\nand the chapter shows\n%s\n"+
				"(if that is as it should be, make transcripts takes it over)", where, indent(out), indent(e.shown)))
		}
		texts[e.block] = chapters.Text{Body: texts[e.block].Body + prompt + e.command + out}
	}
	if !fill {
		return errors.Join(differences...)
	}
	filled, err := chapter.Fill(texts)
	if err == nil {
		_, err = chapter.Write(root, filled)
	}
	return err
}

// setUp runs a command that has to succeed.
func (s *session) setUp(ctx context.Context, e *exchange) (string, error) {
	const failed = "exit code of setup: "
	out, err := s.run(ctx, e.command+` || echo "`+failed+`$?"`)
	if err == nil && strings.Contains(out, failed) {
		err = errors.New("has failed")
	}
	return out, err
}

// observe runs a command and returns what it prints: if it only looks, once it prints what the chapter shows, or else
// after 20 seconds, for which it is repeated.
func (s *session) observe(ctx context.Context, e *exchange) (string, error) {
	deadline := time.Now().Add(20 * time.Second)
	for {
		out, err := s.run(ctx, strings.TrimSpace(e.command))
		if err != nil || same(e.shown, out) || e.shown == "" || !e.onlyLooks() || time.Now().After(deadline) {
			return out, err
		}
		if _, err := s.run(ctx, "sleep 0.3"); err != nil {
			return out, err
		}
	}
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSuffix(cmp.Or(text, "(nothing)"), "\n"), "\n", "\n    ")
}
