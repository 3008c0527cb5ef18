package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/scenarios"
)

// How many scenarios are played at the same time with each manager.
const atATime = 6

// column is what became of the scenarios with one manager.
type column struct {
	name    string
	results []result
	took    time.Duration
}

// result is what became of one scenario.
type result struct {
	mark    string
	took    time.Duration
	why     string // it was left out
	failure string
}

// playScenarios plays the scenarios with kcm, or with both managers: one that the
// original fails does not tell the truth about Kubernetes, and one that kcm fails is
// a defect of kcm.
func playScenarios(ctx context.Context, pattern string, managers ...string) error {
	chosen, err := choose(pattern)
	if err != nil {
		return err
	}
	var columns []*column
	for _, name := range managers {
		columns = append(columns, &column{name: name})
	}
	group, groupCtx := errgroup.WithContext(ctx)
	if cluster.OnKind() {
		group.SetLimit(1) // a node of kind wants the machine for itself
	}
	for _, c := range columns {
		group.Go(func() error { return c.play(groupCtx, chosen, c.name == "original") })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Print(table(chosen, columns))
	return verdict(chosen, columns)
}

// choose returns the scenarios whose names a regular expression matches, each
// with its script.
func choose(pattern string) ([]scenarios.Scenario, error) {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("ONLY: %w", err)
	}
	all, err := scenarios.All("labs/scenarios")
	if err != nil {
		return nil, err
	}
	var chosen []scenarios.Scenario
	for _, s := range all {
		if wanted.MatchString(s.Name) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no scenario matches %q; they are the files in labs/scenarios, named as in deployment/recreate-goes-back-in-the-same-way", pattern)
	}
	return chosen, nil
}

// play plays all scenarios with one manager, on a cluster of its own.
func (c *column) play(ctx context.Context, chosen []scenarios.Scenario, reference bool) (err error) {
	begin := time.Now()
	var told strings.Builder
	s, end, err := allLoops(ctx, play.NewTeller(&told, false), reference)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	defer func() { err = errors.Join(err, end()) }()
	s.Manifests = []string{"labs/scenarios/manifests"}
	c.results = make([]result, len(chosen))
	var mu sync.Mutex
	done := 0
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(atATime)
	for i, scenario := range chosen {
		group.Go(func() error {
			r, err := c.one(groupCtx, *s, scenario)
			mu.Lock()
			defer mu.Unlock()
			c.results[i] = r
			done++
			fmt.Fprintf(os.Stderr, "%8s %3d of %d: %s %5.1f s  %s\n", c.name, done, len(chosen), r.mark, r.took.Seconds(), sentence(scenario.Name))
			return err
		})
	}
	err = group.Wait()
	c.took = time.Since(begin)
	return err
}

// one plays one scenario. An error ends everything.
func (c *column) one(ctx context.Context, s play.Setting, scenario scenarios.Scenario) (result, error) {
	script, err := play.ReadScript(scenario.Path, s.Manifests...)
	if err != nil {
		return result{mark: "✗"}, err
	}
	var told strings.Builder
	s.Narrator = play.NewTeller(&told, false)
	begin := time.Now()
	leftOut, err := s.Perform(ctx, script, scenario.Variables...)
	r := result{mark: "✓", took: time.Since(begin), why: leftOut}
	switch {
	case leftOut != "":
		r.mark = "–"
	case errors.Is(err, play.ErrFailed):
		r.mark, r.failure = "✗", told.String()
	case err != nil:
		return r, err
	}
	return r, nil
}

// sentence is what a scenario proves, with its folder before it.
func sentence(scenario string) string {
	i := strings.LastIndex(scenario, "/")
	return scenario[:i+1] + strings.ReplaceAll(scenario[i+1:], "-", " ")
}

// table shows the scenarios with both results. Those that were left out say why.
func table(chosen []scenarios.Scenario, columns []*column) string {
	width := 0
	for _, s := range chosen {
		width = max(width, len(sentence(s.Name)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-*s", width, "scenario")
	for _, c := range columns {
		fmt.Fprintf(&b, "  %-9s", c.name)
	}
	fmt.Fprintln(&b)
	for i, s := range chosen {
		fmt.Fprintf(&b, "%-*s", width, sentence(s.Name))
		why := ""
		for _, c := range columns {
			fmt.Fprintf(&b, "  %s %5.1f s", c.results[i].mark, c.results[i].took.Seconds())
			if c.results[i].why != "" {
				why = "  " + c.results[i].why
			}
		}
		fmt.Fprintln(&b, why)
	}
	for _, c := range columns {
		fmt.Fprintf(&b, "%s: %d passed, %d failed, %d skipped in %.0f s\n", c.name, c.count("✓"), c.count("✗"), c.count("–"), c.took.Seconds())
	}
	return b.String()
}

func (c *column) count(mark string) (n int) {
	for _, r := range c.results {
		if r.mark == mark {
			n++
		}
	}
	return n
}

// verdict is an error if a scenario has failed, and shows what was told of it.
func verdict(chosen []scenarios.Scenario, columns []*column) error {
	failed := 0
	for _, c := range columns {
		for i, r := range c.results {
			if r.mark == "✗" {
				failed++
				fmt.Printf("\n%s failed: %s\n%s", c.name, sentence(chosen[i].Name), r.failure)
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of the results are failures", failed)
	}
	return nil
}
