package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/kcm-book/kcm-book/kcm/app"
)

// bench is one run of everything.
type bench struct {
	programs struct{ kcm, original string }
	out      string
	rounds   int
	profile  bool
	only     *regexp.Regexp

	began time.Time
}

func (b *bench) run(ctx context.Context) error {
	b.began = time.Now()
	if err := b.prepareOut(); err != nil {
		return err
	}
	machine, err := describeMachine(ctx, b)
	if err != nil {
		return err
	}
	report := &report{Machine: machine, Flags: slices.Concat(sharedFlags(app.KnownControllers()), wideLimits())}
	for round := 1; round <= b.rounds; round++ {
		results, err := b.round(ctx, round)
		report.Rounds = append(report.Rounds, results...)
		if err != nil {
			return err
		}
		// What is measured is kept, whatever becomes of the next round.
		report.summarise()
		if err := report.write(b.out); err != nil {
			return err
		}
	}
	if b.profile {
		if err := b.profileRound(ctx); err != nil {
			return err
		}
	}
	report.print(os.Stdout, b.out)
	return nil
}

// prepareOut clears away what an earlier run has left, so that nothing of it
// is taken for this run's.
func (b *bench) prepareOut() error {
	for _, name := range []string{"logs", "profiles", "bench.json", "bench.svg"} {
		if err := os.RemoveAll(filepath.Join(b.out, name)); err != nil {
			return err
		}
	}
	return errors.Join(os.MkdirAll(b.logs(), 0o755), os.MkdirAll(b.profiles(), 0o755))
}

func (b *bench) logs() string     { return filepath.Join(b.out, "logs") }
func (b *bench) profiles() string { return filepath.Join(b.out, "profiles") }

// round measures both subjects, in turns as the first, and what stands beside
// them.
func (b *bench) round(ctx context.Context, round int) ([]*result, error) {
	subjects := []subject{b.kcm(), b.original()}
	if round%2 == 0 {
		slices.Reverse(subjects)
	}
	var results []*result
	all := slices.Concat([]subject{limit}, subjects, []subject{b.originalWithAllLoops(), b.originalThatReleases()},
		with([]subject{b.kcm()}, listening, listeningPhases),
		with(subjects, deletions, deletionPhases), with(subjects, "growth", growthPhases), with(subjects, "size", sizePhases),
		with(subjects, "daemons", daemonPhases), with(subjects, "jobs", jobPhases), addressing(subjects))
	for _, subject := range all {
		result := &result{Round: round, Subject: subject.name, Load: loadAverage(), Values: map[string]float64{}}
		results = append(results, result)
		if err := b.trial(ctx, subject, result, false); err != nil {
			return results, fmt.Errorf("round %d, %s: %w", round, subject.name, err)
		}
	}
	return results, nil
}

// profileRound runs both once more, while profiles are taken. What that costs
// would be part of what is measured, so nothing of it is counted.
func (b *bench) profileRound(ctx context.Context) error {
	for _, subject := range []subject{b.kcm(), b.original()} {
		uncounted := &result{Subject: subject.name, Values: map[string]float64{}}
		if err := b.trial(ctx, subject, uncounted, true); err != nil {
			return fmt.Errorf("profiles of %s: %w", subject.name, err)
		}
	}
	return nil
}

// say prints a line of progress.
func (b *bench) say(round int, subject, format string, args ...any) {
	where := fmt.Sprintf("round %d/%d", round, b.rounds)
	if round == 0 {
		where = "profiles "
	}
	fmt.Printf("%6.1f s  %s  %-8s  %s\n", time.Since(b.began).Seconds(), where, subject, fmt.Sprintf(format, args...))
}
