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
	duration time.Duration
	only     string
	most     int
	replay   string
	both     bool
	atATime  int
}

func parseFaultOptions(args []string) (faultOptions, error) {
	var o faultOptions
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.DurationVar(&o.duration, "for", 5*time.Minute, "how long to begin new runs")
	flags.StringVar(&o.only, "only", "", "a regular expression for the names of runs, such as 'rollout/|/late-pods'")
	flags.IntVar(&o.most, "most", 40, "the largest number of a write or event at which a fault happens")
	flags.StringVar(&o.replay, "replay", "", "play one run and tell its whole history, such as rollout/stop/3")
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
		for _, w := range faults.Workloads {
			fmt.Fprintf(flags.Output(), "  %-11s %s\n", w.Name, w.Says)
		}
		fmt.Fprint(flags.Output(), "\nWhat has to hold at every moment, besides the same end as without the fault and no write after it:\n")
		for _, i := range faults.Invariants {
			fmt.Fprintf(flags.Output(), "  %-11s %s\n", i.Name, i.Says)
		}
	}
	return o, flags.Parse(args)
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
	c, err := cluster.StartEmbedded(ctx, cluster.WithNodes(2))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	dir, err := os.MkdirTemp("", "faults-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	player, err := faults.NewPlayer(c, dir)
	if err != nil {
		return err
	}
	var managers []*play.Manager
	for _, reference := range []bool{false, true} {
		if !o.both && reference != (os.Getenv("REFERENCE") == "1") {
			continue
		}
		m, err := play.NewManager(ctx, c, reference, program)
		if err != nil {
			return err
		}
		managers = append(managers, m)
	}
	s := &search{faultOptions: o, player: player, managers: managers}
	if o.replay != "" {
		return s.replayOne(ctx)
	}
	return s.run(ctx)
}

// search plays runs and gathers what they find.
type search struct {
	faultOptions
	player   *faults.Player
	managers []*play.Manager

	mu      sync.Mutex
	results []*faults.Result
}

// run plays the runs that are planned until the time is over.
func (s *search) run(ctx context.Context) error {
	only, err := regexp.Compile(s.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	without := map[*play.Manager]map[string]*faults.Result{}
	for _, m := range s.managers {
		if without[m], err = s.withoutFault(ctx, m, only); err != nil {
			return err
		}
	}
	begin := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.atATime)
	all := s.plan(without, only)
	for _, run := range all {
		if time.Since(begin) > s.duration || ctx.Err() != nil {
			continue
		}
		group.Go(func() error {
			result, err := s.player.Play(ctx, run.manager, run.Workload, run.Fault, run.ending)
			if err == nil {
				s.keep(result)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Printf("\n%d of %d runs that there are with -most %d were played in %v\n", len(s.results), len(all), s.most, time.Since(begin).Round(time.Second))
	return s.report()
}

// planned is a run with a manager.
type planned struct {
	faults.Spec
	manager *play.Manager
	ending  string
}

// plan is what is to be played, with the managers in turn.
func (s *search) plan(without map[*play.Manager]map[string]*faults.Result, only *regexp.Regexp) (all []planned) {
	plans := make([][]faults.Spec, len(s.managers))
	longest := 0
	for i, m := range s.managers {
		plans[i] = faults.Plan(without[m], only, s.most)
		longest = max(longest, len(plans[i]))
	}
	for row := range longest {
		for i, m := range s.managers {
			if row < len(plans[i]) {
				spec := plans[i][row]
				all = append(all, planned{spec, m, without[m][spec.Workload.Name].Ending})
			}
		}
	}
	return all
}

// withoutFault plays the workloads that are asked for without a fault.
func (s *search) withoutFault(ctx context.Context, m *play.Manager, only *regexp.Regexp) (map[string]*faults.Result, error) {
	results := map[string]*faults.Result{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.atATime)
	for i := range faults.Workloads {
		w := &faults.Workloads[i]
		group.Go(func() error {
			result, err := s.player.Play(ctx, m, w, faults.Fault{}, "")
			if err != nil {
				return err
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			results[w.Name] = result
			if len(result.Findings) > 0 {
				return fmt.Errorf("%s without a fault, with %s: %s: %s\n%s", w.Name, m.Name, result.Findings[0].About, result.Findings[0].Says, strings.Join(result.Story, "\n"))
			}
			fmt.Fprintf(os.Stderr, "%s without a fault, with %s: %d writes, events %v, %.1f s\n", w.Name, m.Name, result.Writes, result.Events, result.Took.Seconds())
			return nil
		})
	}
	return results, group.Wait()
}

// keep keeps a result, and tells it.
func (s *search) keep(r *faults.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results = append(s.results, r)
	mark, about := "✓", ""
	if !r.Struck {
		mark = "–"
	}
	for _, f := range r.Findings {
		mark, about = "✗", about+" "+f.About
	}
	fmt.Fprintf(os.Stderr, "%4d %s %5.1f s  %-24s %s%s\n", len(s.results), mark, r.Took.Seconds(), r.Manager.Name, r.ID(), about)
}

// replayOne plays one run, without the fault before, and tells its history.
func (s *search) replayOne(ctx context.Context) error {
	spec, err := faults.ParseSpec(s.replay)
	if err != nil {
		return fmt.Errorf("-replay: %w", err)
	}
	for _, m := range s.managers {
		without, err := s.player.Play(ctx, m, spec.Workload, faults.Fault{}, "")
		if err != nil {
			return err
		}
		result, err := s.player.Play(ctx, m, spec.Workload, spec.Fault, without.Ending)
		if err != nil {
			return err
		}
		s.keep(result)
		fmt.Printf("%s with %s\n%s\n", spec, m.Name, strings.Join(result.Story, "\n"))
		fmt.Printf("the end:\n%s\n", result.Ending)
		for _, f := range result.Findings {
			fmt.Printf("%s: %s\n", f.About, f.Says)
		}
	}
	return s.verdict()
}
