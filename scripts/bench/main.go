// Command bench measures kcm beside the original kube-controller-manager.
//
// Both run in turns, each time on a fresh lab cluster, as processes with the same flags and the same
// loops, and do the same work. What that is, is declared as phases, each with the rows of the table
// that it measures; plans say which phases share a cluster. After the counted rounds comes one that is
// not counted, in which CPU and heap profiles are taken of both.
//
//   - Times are from just before the request that starts something to the watch event that shows it
//     done; nothing is polled. The watch is bench's own, so its cost is the same for both.
//
//   - CPU is user and system time of the manager's process, and memory its resident set.
//
//   - Requests are those in the API server's audit log by the controller manager and the
//     ServiceAccounts of its loops. Watches are not in that log.
//
//   - kwok plays the nodes; a pod is Ready a second after it was started at the earliest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kcm-book/kcm-book/kcm/app"
	"github.com/kcm-book/kcm-book/labs/cluster"
)

func main() {
	b := &bench{began: time.Now()}
	flag.StringVar(&b.kcm, "kcm", "bin/kcm", "the kcm `program` to measure")
	flag.StringVar(&b.original, "original", "bin/kube-controller-manager", "the original `program` to measure")
	flag.StringVar(&b.out, "out", "build/bench", "`directory` for the results")
	flag.IntVar(&b.rounds, "rounds", 3, "how many rounds are counted")
	flag.BoolVar(&b.profile, "profile", true, "take profiles in a round of their own")
	only := flag.String("only", "", "run only phases that match this `regexp`: "+strings.Join(b.choices(), ", "))
	flag.Parse()
	// A second Ctrl-C ends bench at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := b.run(ctx, *only); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted; everything that was started is stopped")
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run of everything.
type bench struct {
	kcm, original, out string
	rounds             int
	profile            bool
	only               *regexp.Regexp
	began              time.Time
}

// plan is what is measured on a cluster, which each of the subjects has for itself.
type plan struct {
	// about is part of the names of logs.
	about    string
	subjects []subject
	phases   []phase
	// serves says that managers serve profiles and their trace.
	serves bool
}

// phase is a part of a plan that can be chosen. One without a name runs where another needs it.
type phase struct {
	name string
	run  func(*trial)
	// neededBy are the phases that go on with what this one has made.
	neededBy []string
	// once says that one round is enough, because it takes long or hardly differs.
	once bool
	rows []row
}

// plans returns all that is measured in a round, in order.
func (b *bench) plans() []plan {
	both := []subject{{kcmName, b.kcm, cluster.KCM, app.KnownControllers(), nil}, b.reference()}
	// The original as people run it. Most of its loops have nothing to do here, but their caches are filled.
	whole := b.reference()
	whole.name, whole.controllers = allLoopsName, append(whole.controllers, "*")
	// The original with the feature gate, off by itself, that has it give its Lease away when it stops.
	releases := b.reference()
	releases.name = releasesName
	releases.more = []string{"--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=true"}
	addressing := slices.Clone(both)
	for i := range addressing {
		addressing[i].controllers = []string{"endpoints-controller", "endpointslice-controller"}
	}
	coldFor := func(name string) phase { return phase{run: (*trial).coldStart, neededBy: []string{name}} }
	return []plan{
		{"limit", []subject{{name: limitName}}, limitPhases, false},
		{"load", both, slices.Concat(loadPhases, failoverPhases), false},
		{"load", []subject{whole}, []phase{coldFor("create"), {name: "create", run: (*trial).createBig}}, false},
		{"load", []subject{releases}, []phase{coldFor("clean"), {name: "clean", run: (*trial).failOverClean}}, false},
		{"listening", both[:1], listeningPhases, true},
		{"deletions", both, deletionPhases, true},
		{"growth", both, growthPhases, false},
		{"size", both, sizePhases, false},
		{"daemons", both, daemonPhases, false},
		{"jobs", both, jobPhases, false},
		{"services", addressing, servicePhases, false},
	}
}

// reference is a program of its own and not bin/labcluster, which can be the original too: the API server
// and all else in there would count as the original's memory.
func (b *bench) reference() subject {
	return subject{originalName, b.original, cluster.Reference, app.KnownControllers(), nil}
}

// phases returns those of all plans.
func (b *bench) phases() (all []phase) {
	for _, plan := range b.plans() {
		all = append(all, plan.phases...)
	}
	return all
}

// choices returns what -only chooses among.
func (b *bench) choices() (names []string) {
	for _, p := range b.phases() {
		if p.name != "" && !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// run runs what matches a regular expression.
func (b *bench) run(ctx context.Context, only string) (err error) {
	b.only, err = regexp.Compile(only)
	switch {
	case runtime.GOOS != "linux":
		return errors.New("memory and CPU time are read from /proc, so this needs Linux")
	case b.rounds < 1:
		return fmt.Errorf("-rounds=%d: must be at least 1", b.rounds)
	case err != nil:
		return fmt.Errorf("-only: %w", err)
	case !slices.ContainsFunc(b.choices(), b.only.MatchString):
		return fmt.Errorf("-only=%s matches none of %s", only, strings.Join(b.choices(), ", "))
	}
	// What an earlier run has left is not to be taken for this run's.
	for _, name := range []string{"logs", "profiles", "bench.json", "bench.svg"} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(b.out, name)))
	}
	if err := errors.Join(err, os.MkdirAll(b.out+"/logs", 0o755), os.MkdirAll(b.out+"/profiles", 0o755)); err != nil {
		return err
	}
	report, err := newReport(ctx, b)
	if err != nil {
		return err
	}
	for round := 1; round <= b.rounds; round++ {
		results, err := b.round(ctx, round, b.plans())
		report.Rounds = append(report.Rounds, results...)
		if err != nil {
			return err
		}
		// What is measured is kept, whatever becomes of the next round.
		report.summarise(b.phases())
		if err := report.write(b.out); err != nil {
			return err
		}
	}
	if b.profile {
		// What profiles cost would be part of what is measured, so nothing of this round is counted.
		if _, err := b.round(ctx, 0, []plan{{"load", b.plans()[1].subjects, loadPhases, true}}); err != nil {
			return err
		}
	}
	report.print(os.Stdout, b.out)
	return nil
}

// round carries out the plans, with the subjects of each in turns as the first.
func (b *bench) round(ctx context.Context, round int, plans []plan) (results []*result, err error) {
	for _, plan := range plans {
		if plan.phases = b.wanted(plan.phases, round); len(plan.phases) == 0 {
			continue
		}
		subjects := slices.Clone(plan.subjects)
		if round%2 == 0 {
			slices.Reverse(subjects)
		}
		for _, subject := range subjects {
			result := &result{Round: round, Subject: subject.name, Load: loadAverage(), Values: map[string]float64{}}
			results = append(results, result)
			if err := b.try(ctx, plan, subject, result); err != nil {
				return results, fmt.Errorf("round %d, %s: %w", round, subject.name, err)
			}
		}
	}
	return results, nil
}

// wanted returns the phases that -only asks for, and those that they need.
func (b *bench) wanted(phases []phase, round int) []phase {
	matches := func(name string) bool { return name != "" && b.only.MatchString(name) }
	return slices.DeleteFunc(slices.Clone(phases), func(p phase) bool {
		return !matches(p.name) && !slices.ContainsFunc(p.neededBy, matches) || p.once && round > 1
	})
}
