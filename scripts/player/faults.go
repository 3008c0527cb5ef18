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

	"golang.org/x/sync/errgroup"

	"github.com/kcm-book/kcm-book/labs/faults"
	"github.com/kcm-book/kcm-book/labs/verdict"
)

// faultRuns plays workloads with one fault each.
type faultRuns struct {
	*faults.Player
	start   func(context.Context) (*faults.Player, error)
	manager string // its name
	// whole has the history of each run told, also where nothing is wrong.
	whole bool

	mu      sync.Mutex
	without map[string]*faults.Result // the runs without a fault, by workload
	told    map[string]faults.Spec    // by what was found, the run of which it was told first
}

// playFaults plays workloads with faults, and is an error if the manager does something wrong.
func playFaults(ctx context.Context, args []string) (err error) {
	workloads, err := faults.Workloads()
	if err != nil {
		return err
	}
	flags := flag.NewFlagSet("faults", flag.ExitOnError)
	runs := flags.Int("runs", 200, "how many runs to play at most, those that show most first; 0 plays all")
	only := flags.String("only", "", "a regular expression for the names of runs, such as 'rollout/|/late-pods'")
	replay := flags.String("replay", "", "play one run and tell its whole history, such as rollout/stop/3")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "Usage: faults [flags]; REFERENCE=1 in the environment plays with the original")
		flags.PrintDefaults()
		fmt.Fprint(flags.Output(), "\nThe faults:\n")
		for _, k := range faults.Kinds {
			fmt.Fprintf(flags.Output(), "  %-11s %s\n", k.Name, k.Does)
		}
		fmt.Fprint(flags.Output(), "\nThe workloads:\n")
		for _, w := range workloads {
			fmt.Fprintf(flags.Output(), "  %-11s %s\n", w.Name, w.Says)
		}
		fmt.Fprint(flags.Output(), "\nWhat has to hold at every moment, besides the same end as without the fault "+
			"and no write after it:\n")
		for _, i := range faults.Invariants {
			fmt.Fprintf(flags.Output(), "  %-11s %s\n", i.Name, i.Says)
		}
	}
	_ = flags.Parse(args) // it ends the program itself
	if _, err := regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	var plan []faults.Spec
	if *replay != "" {
		spec, err := faults.ParseSpec(*replay, workloads)
		if err != nil {
			return fmt.Errorf("-replay: %w", err)
		}
		plan, workloads = []faults.Spec{spec}, []*faults.Workload{spec.Workload}
	}
	program, err := finished()
	if err != nil {
		return err
	}
	r := &faultRuns{whole: *replay != "", without: map[string]*faults.Result{}, told: map[string]faults.Spec{}}
	var reference bool
	r.manager, reference = subject()
	r.start = func(ctx context.Context) (*faults.Player, error) { return faults.Start(ctx, program, reference) }
	if r.Player, err = r.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var without []faults.Spec
	for _, w := range workloads {
		without = append(without, faults.Spec{Workload: w})
	}
	if err := r.play(ctx, without); err != nil {
		return err
	}
	if plan == nil {
		if plan, err = verdict.Choose(*only, faults.Plan(workloads, r.without), faults.Spec.String); err != nil {
			return err
		}
	}
	if all := len(plan); *runs > 0 && *runs < all {
		plan = plan[:*runs]
		fmt.Fprintf(os.Stderr, "%d of the %d runs that there are:\n", *runs, all)
	}
	return r.play(ctx, plan)
}

// play plays runs side by side and then, one by one and each on a control plane of its own, those that kill it.
func (r *faultRuns) play(ctx context.Context, plan []faults.Spec) error {
	table := verdict.New([]string{r.manager}, verdict.Names(plan, faults.Spec.String))
	for _, alone := range []bool{false, true} {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(3 * runtime.NumCPU()) // they wait most of the time
		if alone {
			group.SetLimit(1)
		}
		for _, spec := range plan {
			if spec.Fault.Alone() != alone {
				continue
			}
			group.Go(func() error {
				v, err := r.playOne(ctx, spec)
				if err != nil { // which says nothing about the manager
					v.Told = err.Error()
				}
				if ctx.Err() == nil {
					table.Put(r.manager, spec.String(), v)
				}
				return ctx.Err()
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	fmt.Print(table.Sums())
	return table.Err()
}

func (r *faultRuns) playOne(ctx context.Context, spec faults.Spec) (v verdict.Result, err error) {
	player := r.Player
	if spec.Fault.Alone() {
		if player, err = r.start(ctx); err != nil {
			return v, err
		}
		defer func() { err = errors.Join(err, player.Close()) }()
	}
	r.mu.Lock()
	without, known := r.without[spec.Workload.Name]
	r.mu.Unlock()
	if !known {
		without = &faults.Result{} // which has no ending that has to be the same
	}
	result, err := player.Play(ctx, spec, without.Ending)
	if err != nil {
		return v, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !known {
		r.without[spec.Workload.Name] = result
	} else if r.whole {
		fmt.Printf("%s with %s\n%s\nthe end:\n%s\n", spec, r.manager, strings.Join(result.Story, "\n"), result.Ending)
	}
	return r.verdict(result), nil
}

// verdict is what a run says about the manager. One whose fault has not happened says nothing. Of what goes wrong in
// the same way in several runs the history is told once.
func (r *faultRuns) verdict(result *faults.Result) verdict.Result {
	v := verdict.Result{Mark: verdict.Passed, Took: result.Took}
	if !result.Struck && result.Fault.Name != "" {
		v.Mark = verdict.Skipped
	}
	for _, f := range result.Findings {
		v.Mark = verdict.Failed
		v.Told += fmt.Sprintf("%s: %s\n", f.About, f.Says)
		key := strings.Join([]string{result.Workload.Name, result.Fault.Name, result.Fault.Of, f.About}, " ")
		if first, told := r.told[key]; told {
			v.Told += fmt.Sprintf("  as in %s\n", first)
			continue
		}
		r.told[key] = result.Spec
		story := f.Story
		if story == nil {
			story = result.Story
		}
		v.Told += "  " + strings.Join(story, "\n  ") + "\n"
	}
	return v
}
