package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcm-book/kcm-book/labs/faults"
)

// chaosOptions are what somebody asks of chaos.
type chaosOptions struct {
	runs    uint64
	seed    uint64
	shorten time.Duration
	keep    []int // the numbers of the steps that are to be played again; nil plays all of many seeds
	times   int
	atATime int
}

func parseChaosOptions(args []string) (chaosOptions, error) {
	var o chaosOptions
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.Uint64Var(&o.runs, "runs", 20, "how many seeds to play")
	flags.DurationVar(&o.shorten, "shorten", 5*time.Minute, "how long to look for fewer steps of a seed that fails")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(100_000), "the first seed; by default any")
	keep := flags.String("keep", "", "play these steps of the seed again, such as 3,9,12, or all")
	flags.IntVar(&o.times, "times", 5, "how often to play steps again")
	flags.IntVar(&o.atATime, "at-a-time", runtime.NumCPU(), "how many seeds are played at the same time")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "Usage: chaos [flags]; REFERENCE=1 in the environment plays with the original")
		flags.PrintDefaults()
		fmt.Fprint(flags.Output(), "\nThe steps:\n")
		for _, act := range faults.Acts {
			fmt.Fprintf(flags.Output(), "  %-11s %s\n", act.Name, act.Says)
		}
		fmt.Fprint(flags.Output(), "\nThe faults, and what has to hold at every moment: faults -h\n")
	}
	err := parse(flags, args)
	if err != nil || *keep == "" {
		return o, err
	}
	o.keep, err = parseNumbers(*keep, len(faults.Draw(0)))
	return o, err
}

// parseNumbers reads numbers of steps, of which there are so many.
func parseNumbers(text string, steps int) (numbers []int, err error) {
	if text == "all" {
		for i := range steps {
			numbers = append(numbers, i+1)
		}
		return numbers, nil
	}
	for number := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > steps {
			return nil, fmt.Errorf("-keep: %q is no step: they are numbers from 1 to %d, with commas, or all", number, steps)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// playChaos plays random operations with random faults, and is an error if the
// manager does something wrong.
func playChaos(ctx context.Context, args []string) (err error) {
	o, err := parseChaosOptions(args)
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
	dir, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := &chaos{chaosOptions: o, reference: os.Getenv("REFERENCE") == "1"}
	if c.field, err = newField(ctx, dir, program); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.field.Close()) }()
	if o.keep != nil {
		return c.replay(ctx)
	}
	return c.run(ctx)
}

// chaos plays seeds and gathers what they find.
type chaos struct {
	chaosOptions
	*field
	reference bool
	begin     time.Time
	alone     sync.RWMutex // who disturbs the control plane locks, all others lock for reading

	mu     sync.Mutex
	rounds []round
	failed []error // what could not be played
}

// round is a seed that was played.
type round struct {
	seed  uint64
	steps []faults.Step
	*faults.Result
}

// run plays seed after seed, then shortens those that fail, and sums up. It does so, too, when it is interrupted.
func (c *chaos) run(ctx context.Context) error {
	c.begin = time.Now()
	var group errgroup.Group
	group.SetLimit(c.atATime)
	for seed := c.seed; seed-c.seed < c.runs && ctx.Err() == nil; seed++ {
		group.Go(func() error {
			steps := faults.Draw(seed)
			result, err := c.play(ctx, steps)
			if ctx.Err() == nil {
				c.keepRound(round{seed, steps, result}, err)
			}
			return ctx.Err()
		})
	}
	interrupted := group.Wait()
	c.sumUp()
	for _, r := range c.findings() {
		c.shortenAndTell(ctx, r)
	}
	return errors.Join(interrupted, c.verdict())
}

// play plays steps, alone if they disturb the control plane.
func (c *chaos) play(ctx context.Context, steps []faults.Step) (*faults.Result, error) {
	if slices.ContainsFunc(steps, func(s faults.Step) bool { return s.Fault.Alone }) {
		c.alone.Lock()
		defer c.alone.Unlock()
	} else {
		c.alone.RLock()
		defer c.alone.RUnlock()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return c.PlaySteps(ctx, c.managers[c.reference], steps)
}

// keepRound keeps what became of a seed, and tells it.
func (c *chaos) keepRound(r round, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed = append(c.failed, fmt.Errorf("seed %d: %w", r.seed, err))
		fmt.Fprintf(os.Stderr, "      seed %d: %v\n", r.seed, err)
		return
	}
	c.rounds = append(c.rounds, r)
	mark, about := "✓", ""
	for _, f := range r.Findings {
		mark, about = "✗", about+" "+f.About
	}
	fmt.Fprintf(os.Stderr, "%4d %s %5.1f s  %s, seed %d: %d steps, %d faults happened, %d objects, %d moments%s\n",
		len(c.rounds), mark, r.Took.Seconds(), nameOf(c.reference), r.seed, len(r.steps), len(r.Struck), r.Objects, r.Moments, about)
}

// sumUp tells what was played.
func (c *chaos) sumUp() {
	acts, drawn, struck := map[string]int{}, map[string]int{}, map[string]int{}
	objects, moments := 0, 0
	for _, r := range c.rounds {
		objects, moments = objects+r.Objects, moments+r.Moments
		for _, s := range r.steps {
			acts[s.Act]++
			drawn[s.Fault.Name]++
		}
		for _, f := range r.Struck {
			struck[f.Name]++
		}
	}
	fmt.Printf("\n%s: %d seeds from %d on in %v, %d objects, %d moments looked at\n",
		nameOf(c.reference), len(c.rounds), c.seed, time.Since(c.begin).Round(time.Second), objects, moments)
	var told []string
	for _, act := range faults.Acts {
		told = append(told, fmt.Sprintf("%s %d", act.Name, acts[act.Name]))
	}
	fmt.Println("steps: " + strings.Join(told, ", "))
	told = nil
	for _, kind := range faults.Kinds {
		told = append(told, fmt.Sprintf("%s %d of %d", kind.Name, struck[kind.Name], drawn[kind.Name]))
	}
	fmt.Println("faults that happened, of those drawn: " + strings.Join(told, ", "))
	if len(c.rounds) > 0 && len(c.findings()) == 0 {
		fmt.Println("no violation in what was played")
	}
}

// findings are the first rounds in which something was wrong, one for each thing.
func (c *chaos) findings() (found []round) {
	about := map[string]bool{}
	for _, r := range c.rounds {
		if len(r.Findings) > 0 && !about[r.Findings[0].About] {
			about[r.Findings[0].About] = true
			found = append(found, r)
		}
	}
	return found
}

// shortenAndTell tells a finding with as few steps as show it.
func (c *chaos) shortenAndTell(ctx context.Context, r round) {
	about := r.Findings[0].About
	fmt.Fprintf(os.Stderr, "\nlooking for the steps of seed %d that show %q, for %v at most\n", r.seed, about, c.shorten)
	limited, cancel := context.WithTimeout(ctx, c.shorten)
	defer cancel()
	fails := func(steps []faults.Step) bool {
		result := c.try(limited, steps, about)
		if result != nil {
			r.steps, r.Result = steps, result
			fmt.Fprintf(os.Stderr, "      %d steps show it\n", len(steps))
		}
		return result != nil
	}
	fails(slices.DeleteFunc(slices.Clone(r.steps), func(s faults.Step) bool { return !strings.Contains(r.Findings[0].Says, s.App) }))
	byApp := func(a, b faults.Step) int { return cmp.Compare(a.App, b.App) }
	faults.Shorten(r.steps, byApp, func(s faults.Step) int { return s.Number }, fails)
	c.tell(r, *findingAbout(r.Result, about))
}

// try plays steps several times side by side, and returns a result that shows
// something, or nil.
func (c *chaos) try(ctx context.Context, steps []faults.Step, about string) *faults.Result {
	results := make([]*faults.Result, c.atATime)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() {
			// What cannot be played, or not in time, shows nothing.
			if result, err := c.play(ctx, steps); err == nil && findingAbout(result, about) != nil {
				results[i] = result
			}
		})
	}
	group.Wait()
	i := slices.IndexFunc(results, func(r *faults.Result) bool { return r != nil })
	if i < 0 {
		return nil
	}
	return results[i]
}

// findingAbout returns what a run shows of something, or nil.
func findingAbout(r *faults.Result, about string) *faults.Finding {
	i := slices.IndexFunc(r.Findings, func(f faults.Finding) bool { return f.About == about })
	if i < 0 {
		return nil
	}
	return &r.Findings[i]
}

// tell tells steps, what was wrong then and when, and how to see it again.
func (c *chaos) tell(r round, f faults.Finding) {
	fmt.Printf("\nseed %d, %d steps:\n", r.seed, len(r.steps))
	var numbers []string
	for _, s := range r.steps {
		fmt.Println("  " + s.String())
		numbers = append(numbers, strconv.Itoa(s.Number))
	}
	for _, other := range r.Findings {
		if other.About != f.About {
			fmt.Printf("\nbesides, %s: %s\n", other.About, other.Says)
		}
	}
	fmt.Print(describe(r.Manager, f, f.Story, nil, fmt.Sprintf("prove-chaos ARGS=\"-seed %d -keep %s\"", r.seed, strings.Join(numbers, ","))))
}

// replay plays some steps several times, and says how often they failed.
func (c *chaos) replay(ctx context.Context) error {
	steps := slices.DeleteFunc(faults.Draw(c.seed), func(s faults.Step) bool { return !slices.Contains(c.keep, s.Number) })
	for range c.times {
		result, err := c.play(ctx, steps)
		if ctx.Err() != nil {
			break
		}
		c.keepRound(round{c.seed, steps, result}, err)
	}
	wrong := slices.DeleteFunc(slices.Clone(c.rounds), func(r round) bool { return len(r.Findings) == 0 })
	for _, r := range c.findings() {
		c.tell(r, r.Findings[0])
	}
	fmt.Printf("\n%d of %d times something was wrong\n", len(wrong), len(c.rounds))
	return errors.Join(ctx.Err(), c.verdict())
}

// verdict is an error if something was wrong, or could not be played.
func (c *chaos) verdict() error {
	var wrong []string
	for _, r := range c.rounds {
		if len(r.Findings) > 0 {
			wrong = append(wrong, fmt.Sprint(r.seed))
		}
	}
	var err error
	if len(wrong) > 0 {
		err = fmt.Errorf("%s did something wrong with the seeds %s", nameOf(c.reference), strings.Join(wrong, ", "))
	}
	return errors.Join(append([]error{err}, c.failed...)...)
}
