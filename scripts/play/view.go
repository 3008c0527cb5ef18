package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/view"
	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// show has a page show what a script plays in a setting, until end is called. The
// script ends when somebody has had time to look, with Ctrl-C.
func show(ctx context.Context, s *play.Setting, reference bool, title string) (l *view.Lab, end func(), err error) {
	port, err := strconv.Atoi(cmp.Or(os.Getenv("PORT"), "0"))
	if err != nil {
		return nil, nil, fmt.Errorf("PORT: %w", err)
	}
	book, err := declared()
	if err != nil {
		return nil, nil, err
	}
	if l, err = view.NewLab(ctx, s.Cluster, reference, title); err != nil {
		return nil, nil, err
	}
	l.Book = book
	if _, err := os.Stat("build/site/index.html"); err == nil {
		l.Pages = "build/site"
	}
	address, stop, err := l.Serve(port)
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	s.Narrator.Say("The loops are at " + address)
	s.Spectator, s.Keep = l, true
	s.Narrator = stepsToo{s.Narrator, l.View}
	return l, func() { stop(); l.Close() }, nil
}

// explained are the packages of the loops whose steps the page has links for.
var explained = map[string]string{
	"deployment-controller":            "kcm/controller/deployment",
	"replicaset-controller":            "kcm/controller/replication",
	"replicationcontroller-controller": "kcm/controller/replication",
}

// declared returns where the pages of the book declare what steps are about, by loop
// and step.
func declared() (map[string]map[string]string, error) {
	all, err := chapters.Read(".")
	if err != nil {
		return nil, err
	}
	book := map[string]map[string]string{}
	for loop, dir := range explained {
		book[loop] = map[string]string{}
		for step, declaration := range map[string][2]string{
			"observed": {dir, "(*Controller).observe"}, "decided": {dir, "decide"}, "done": {dir, "(*Controller).act"},
			"queue": {"kcm/controller", "(*Loop).retry"}, "error": {"kcm/controller", "(*Loop).retry"},
			"waits": {"kcm/controller", "(*OwnWrites).Observed"},
		} {
			if book[loop][step] = addressOf(all, declaration[0], declaration[1]); book[loop][step] == "" {
				return nil, fmt.Errorf("no chapter shows %s, which the view links to", declaration)
			}
		}
	}
	return book, nil
}

// addressOf returns the page and the anchor of a declaration where the book shows it
// last.
func addressOf(all []*chapters.Chapter, dir, name string) (address string) {
	for _, chapter := range all {
		for _, block := range chapter.Blocks {
			if block.Package == dir && slices.Contains(block.Names, name) {
				anchor := filepath.Base(dir) + "." + strings.NewReplacer("(", "", "*", "", ")", "").Replace(name)
				address = block.Page().Web() + "#" + anchor
			}
		}
	}
	return address
}

// stepsToo tells a view of the steps of a script.
type stepsToo struct {
	play.Narrator
	view *view.View
}

// Step begins a step when the narrator does.
func (s stepsToo) Step(ctx context.Context, number int, sentence string) error {
	err := s.Narrator.Step(ctx, number, sentence)
	s.view.Did(fmt.Sprintf("Step %d: %s", number, sentence))
	return err
}
