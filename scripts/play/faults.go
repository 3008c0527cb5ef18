package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/faults"
	"github.com/kcm-book/kcm-book/labs/play"
)

// faultOptions are what somebody asks of faults.
type faultOptions struct {
	workloads []*faults.Workload
	runs      int
	only      *regexp.Regexp
	most      int
	replay    *faults.Spec // nil plays all
	both      bool
	atATime   int
}

func parseFaultOptions(args []string) (faultOptions, error) {
	var o faultOptions
	var err error
	if o.workloads, err = faults.Workloads(); err != nil {
		return o, err
	}
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.IntVar(&o.runs, "runs", 200, "how many runs to play at most, those that show most first; 0 plays all")
	only := flags.String("only", "", "a regular expression for the names of runs, such as 'rollout/|/late-pods'")
	flags.IntVar(&o.most, "most", 40, "the largest number of a write or event at which a fault happens")
	replay := flags.String("replay", "", "play one run and tell its whole history, such as rollout/stop/3")
	flags.BoolVar(&o.both, "both", false, "play each run with kcm and with the original")
	flags.IntVar(&o.atATime, "at-a-time", 3*runtime.NumCPU(), "how many runs are played at the same time")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "Usage: faults [flags]; REFERENCE=1 in the environment plays with the original")
		flags.PrintDefaults()
		fmt.Fprint(flags.Output(), "\nThe faults:\n")
		for _, k := range faults.Kinds {
			fmt.Fprintf(flags.Output(), "  %-11s %s\n", k.Name, k.Does)
		}
		fmt.Fprint(flags.Output(), "\nThe workloads:\n")
		for _, w := range o.workloads {
			fmt.Fprintf(flags.Output(), "  %-11s %s\n", w.Name, w.Says)
		}
		fmt.Fprint(flags.Output(), "\nWhat has to hold at every moment, besides the same end as without the fault and no write after it:\n")
		for _, i := range faults.Invariants {
			fmt.Fprintf(flags.Output(), "  %-11s %s\n", i.Name, i.Says)
		}
	}
	if err = parse(flags, args); err != nil {
		return o, err
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	if *replay == "" {
		return o, nil
	}
	spec, err := faults.ParseSpec(*replay, o.workloads)
	if err != nil {
		return o, fmt.Errorf("-replay: %w", err)
	}
	o.replay = &spec
	return o, nil
}

// playFaults plays workloads with faults, and is an error if kcm does something
// wrong.
func playFaults(ctx context.Context, args []string) (err error) {
	o, err := parseFaultOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	program, err := finished()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "faults-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &search{faultOptions: o}
	for _, reference := range []bool{false, true} {
		if o.both || reference == (os.Getenv("REFERENCE") == "1") {
			s.managers = append(s.managers, reference)
		}
	}
	if s.shared, err = newField(ctx, dir, program); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.shared.Close()) }()
	if o.replay != nil {
		return s.replayOne(ctx)
	}
	if s.alone, err = newField(ctx, dir, program); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.alone.Close()) }()
	return s.run(ctx)
}

// field is a control plane on which runs are played.
type field struct {
	*cluster.Cluster
	*faults.Player
	managers map[bool]*play.Manager // kcm and the original
}

func newField(ctx context.Context, dir, program string) (*field, error) {
	c, err := cluster.StartEmbedded(ctx, cluster.WithNodes(2))
	if err != nil {
		return nil, err
	}
	f := &field{Cluster: c, managers: map[bool]*play.Manager{}}
	if f.Player, err = faults.NewPlayer(c, dir); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for _, reference := range []bool{false, true} {
		if f.managers[reference], err = play.NewManager(ctx, c, reference, program); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return f, nil
}

// play plays a run with a manager.
func (f *field) play(ctx context.Context, reference bool, spec faults.Spec, ending string) (*faults.Result, error) {
	return f.Play(ctx, f.managers[reference], spec.Workload, spec.Fault, ending)
}

// search plays runs and gathers what they find.
type search struct {
	faultOptions
	shared, alone *field // what is to be alone is played in the second, one after the other
	managers      []bool // whether they are the original
	begin         time.Time

	mu      sync.Mutex
	results []*faults.Result
	failed  []error // what could not be played
}

// endings are the runs without a fault of a manager, by the name of the workload.
type endings map[string]*faults.Result

// run plays the runs that are planned.
func (s *search) run(ctx context.Context) (err error) {
	without := map[bool]endings{}
	for _, reference := range s.managers {
		if without[reference], err = s.withoutFault(ctx, reference); err != nil {
			return err
		}
	}
	plan := s.plan(without)
	if len(plan) == 0 {
		return fmt.Errorf("-only %q matches no run; they are named as rollout/stop/3", s.only)
	}
	all := len(plan)
	if s.runs > 0 {
		plan = plan[:min(s.runs, all)]
	}
	s.begin = time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.playAll(ctx, s.alone, 1, plan) })
	group.Go(func() error { return s.playAll(ctx, s.shared, s.atATime, plan) })
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Printf("\n%d of %d runs that there are with -most %d were played in %v\n", len(s.results), all, s.most, time.Since(s.begin).Round(time.Second))
	return s.report()
}

// planned is a run with a manager.
type planned struct {
	faults.Spec
	reference bool
	ending    string
}

// plan is what is to be played, with the managers in turn.
func (s *search) plan(without map[bool]endings) (all []planned) {
	plans := map[bool][]faults.Spec{}
	longest := 0
	for _, reference := range s.managers {
		plans[reference] = faults.Plan(s.workloads, without[reference], s.only, s.most)
		longest = max(longest, len(plans[reference]))
	}
	for row := range longest {
		for _, reference := range s.managers {
			if row < len(plans[reference]) {
				spec := plans[reference][row]
				all = append(all, planned{spec, reference, without[reference][spec.Workload.Name].Ending})
			}
		}
	}
	return all
}

// playAll plays those runs of a plan that belong to a field.
func (s *search) playAll(ctx context.Context, f *field, atATime int, plan []planned) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atATime)
	for _, run := range plan {
		if run.Fault.Alone != (f == s.alone) {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			result, err := f.play(ctx, run.reference, run.Spec, run.ending)
			if err == nil {
				s.keep(result)
			} else if ctx.Err() == nil {
				s.fail(err)
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

// withoutFault plays all workloads without a fault.
func (s *search) withoutFault(ctx context.Context, reference bool) (endings, error) {
	results := endings{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.atATime)
	for _, workload := range s.workloads {
		spec := faults.Spec{Workload: workload}
		group.Go(func() error {
			result, err := s.shared.play(ctx, reference, spec, "")
			if err != nil {
				return err
			}
			if len(result.Findings) > 0 {
				s.keep(result)
				fmt.Print(s.findings(reference))
				return fmt.Errorf("%s goes wrong without a fault, too", spec.Workload.Name)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			results[spec.Workload.Name] = result
			fmt.Fprintf(os.Stderr, "%s without a fault: %d writes, %.1f s\n", spec.Workload.Name, result.Writes, result.Took.Seconds())
			return nil
		})
	}
	return results, group.Wait()
}

// fail keeps that a run could not be played, which says nothing about the
// manager, and tells it.
func (s *search) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = append(s.failed, err)
	fmt.Fprintln(os.Stderr, "     ", err)
}

// keep keeps a result, and tells it.
func (s *search) keep(r *faults.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results = append(s.results, r)
	mark, about := "✓", ""
	if len(r.Struck) == 0 {
		mark = "–"
	}
	for _, f := range r.Findings {
		mark, about = "✗", about+" "+f.About
	}
	fmt.Fprintf(os.Stderr, "%4d %s %5.1f s  %-24s %s%s\n", len(s.results), mark, r.Took.Seconds(), r.Manager.Name, r.ID(), about)
}

// replayOne plays one run, without the fault before, and tells its history.
func (s *search) replayOne(ctx context.Context) error {
	spec, f := *s.replay, s.shared
	for _, reference := range s.managers {
		without, err := f.play(ctx, reference, faults.Spec{Workload: spec.Workload}, "")
		if err != nil {
			return err
		}
		result, err := f.play(ctx, reference, spec, without.Ending)
		if err != nil {
			return err
		}
		s.keep(result)
		fmt.Printf("%s with %s\n%s\n", spec, result.Manager.Name, strings.Join(result.Story, "\n"))
		fmt.Printf("the end:\n%s\n", result.Ending)
		for _, f := range result.Findings {
			fmt.Printf("%s: %s\n", f.About, f.Says)
		}
	}
	return s.verdict()
}
