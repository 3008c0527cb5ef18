package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/scenarios"
	"github.com/kcm-book/kcm-book/labs/verdict"
)

// playScenarios plays the scenarios with kcm, or with both managers: one that the original fails does not tell the
// truth about Kubernetes, and one that kcm fails is a defect of kcm.
func playScenarios(ctx context.Context, pattern string, managers ...string) error {
	all := scenarios.All("labs/scenarios")
	chosen, err := verdict.Choose(pattern, all, func(s scenarios.Scenario) string { return s.Name })
	if err != nil {
		return err
	}
	table := verdict.New(managers, verdict.Names(chosen, sentence))
	group, groupCtx := errgroup.WithContext(ctx)
	if cluster.OnKind() {
		group.SetLimit(1) // a node of kind wants the machine for itself
	}
	for _, manager := range managers {
		group.Go(func() error { return playWith(groupCtx, manager, chosen, table) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Print(table)
	return table.Err()
}

// playWith plays all scenarios with one manager, six at the same time, on a cluster of its own.
func playWith(ctx context.Context, manager string, chosen []scenarios.Scenario, table *verdict.Table) (err error) {
	var told strings.Builder
	s, end, err := allLoops(ctx, play.NewTeller(&told, false), manager == "original")
	if err != nil {
		return fmt.Errorf("%s: %w", manager, err)
	}
	defer func() { err = errors.Join(err, end()) }()
	s.Manifests = []string{"labs/scenarios/manifests"}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(6)
	for _, scenario := range chosen {
		group.Go(func() error {
			r, err := playOne(groupCtx, *s, scenario)
			if err == nil {
				table.Put(manager, sentence(scenario), r)
			}
			return err
		})
	}
	return group.Wait()
}

// playOne plays one scenario. An error ends everything.
func playOne(ctx context.Context, s play.Setting, scenario scenarios.Scenario) (verdict.Result, error) {
	script, err := play.ReadScript(scenario.Path, s.Manifests...)
	if err != nil {
		return verdict.Result{}, err
	}
	var told strings.Builder
	s.Narrator = play.NewTeller(&told, false)
	begin := time.Now()
	leftOut, err := s.Perform(ctx, script, scenario.Variables...)
	r := verdict.Result{Mark: verdict.Passed, Took: time.Since(begin), Note: leftOut}
	switch {
	case leftOut != "":
		r.Mark = verdict.Skipped
	case errors.Is(err, play.ErrFailed):
		r.Mark, r.Told, err = verdict.Failed, told.String(), nil
	}
	return r, err
}

// sentence is what a scenario proves, with its folder before it.
func sentence(scenario scenarios.Scenario) string {
	folder, words := path.Split(scenario.Name)
	return folder + strings.ReplaceAll(words, "-", " ")
}
