package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kcm-book/kcm-book/labs/odd"
)

// oddOptions are what somebody asks of odd.
type oddOptions struct {
	runs    int
	seed    uint64
	shorten time.Duration
	faulty  bool
	keep    []int // the numbers of the operations that are to be played again; nil plays all of many seeds
}

func parseOddOptions(args []string) (o oddOptions, err error) {
	flags := flag.NewFlagSet("odd", flag.ContinueOnError)
	flags.IntVar(&o.runs, "runs", 20, "how many seeds to play")
	flags.DurationVar(&o.shorten, "shorten", 10*time.Minute, "how long to look for fewer operations of a seed that fails")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64N(100_000), "the first seed; by default any")
	flags.BoolVar(&o.faulty, "faults", true, "refuse some writes of the manager, and lose some answers, while a seed is played")
	keep := flags.String("keep", "", "play these operations of the seed again, such as 3,9,12, or all")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "Usage: odd [flags]; REFERENCE=1 in the environment plays with the original")
		flags.PrintDefaults()
		fmt.Fprint(flags.Output(), "\nThe kinds:\n")
		for _, k := range odd.Kinds {
			fmt.Fprintf(flags.Output(), "  %s %s\n", k.APIVersion, k.Resource)
		}
		fmt.Fprint(flags.Output(), "\nWhat has to hold:\n")
		for _, about := range odd.Abouts {
			fmt.Fprintf(flags.Output(), "  %-11s %s\n", about[0], about[1])
		}
	}
	if err = parse(flags, args); err == nil && *keep != "" {
		o.keep, err = parseNumbers(*keep, odd.Ops)
	}
	return o, err
}

// parseNumbers reads numbers of operations, of which there are so many.
func parseNumbers(text string, most int) (numbers []int, err error) {
	if text == "all" {
		for i := range most {
			numbers = append(numbers, i+1)
		}
		return numbers, nil
	}
	for number := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > most {
			return nil, fmt.Errorf("-keep: %q is no operation: they are numbers from 1 to %d, with commas, or all", number, most)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// playOdd has a manager live with odd objects, and is an error if it cannot.
func playOdd(ctx context.Context, args []string) error {
	o, err := parseOddOptions(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	p := &oddPlay{oddOptions: o, begin: time.Now(), taken: map[string]int{}, refused: map[string]int{}}
	p.reference = os.Getenv("REFERENCE") == "1"
	if p.program, err = finished(); err != nil {
		return err
	}
	for seed := o.seed; err == nil && ctx.Err() == nil && p.goesOn(); {
		seed, err = p.untilItFails(ctx, seed)
	}
	p.sumUp()
	for _, f := range p.first() {
		if o.keep == nil && f.ops != nil && ctx.Err() == nil {
			f = p.shortened(ctx, f)
		}
		p.tell(f)
	}
	if err == nil && len(p.found) > 0 {
		err = fmt.Errorf("%s cannot bear all of it", nameOf(p.reference))
	}
	return err
}

// oddPlay plays seeds and gathers what they find.
type oddPlay struct {
	oddOptions
	program        string
	reference      bool
	begin          time.Time
	rounds         int
	taken, refused map[string]int // by kind
	found          []oddFinding
}

// oddFinding is what operations of a seed have shown. Growth is shown by all.
type oddFinding struct {
	seed uint64
	ops  []odd.Op
	odd.Finding
}

// goesOn tells whether there is another seed to play.
func (p *oddPlay) goesOn() bool {
	return p.rounds == 0 || p.keep == nil && p.rounds < p.runs
}

// untilItFails plays seeds with one manager until the last or one that has found something, and returns the
// next seed, which what is left of that one might disturb.
func (p *oddPlay) untilItFails(ctx context.Context, seed uint64) (next uint64, err error) {
	player, err := odd.Start(ctx, p.program, p.reference, p.faulty)
	if err != nil {
		return seed, err
	}
	defer func() { err = errors.Join(err, player.Close()) }()
	var figures []odd.Figures
	for ; p.goesOn(); seed++ {
		result, err := player.Play(ctx, seed, p.kept(odd.Draw(seed)), "")
		if err != nil {
			return seed, err
		}
		p.keepRound(seed, result)
		if figures = append(figures, result.Figures); len(result.Findings) > 0 {
			return seed + 1, nil
		}
	}
	for _, says := range odd.Growth(figures) {
		p.found = append(p.found, oddFinding{seed, nil, odd.Finding{About: "growth", Says: says}})
	}
	return seed, nil
}

func (p *oddPlay) kept(ops []odd.Op) []odd.Op {
	return slices.DeleteFunc(ops, func(op odd.Op) bool { return p.keep != nil && !slices.Contains(p.keep, op.Number) })
}

// keepRound keeps what became of a seed, and tells it.
func (p *oddPlay) keepRound(seed uint64, r *odd.Result) {
	p.rounds++
	mark, about := "✓", ""
	for _, f := range r.Findings {
		mark, about = "✗", about+" | "+f.About
		p.found = append(p.found, oddFinding{seed, r.Sent, f})
	}
	fmt.Fprintf(os.Stderr, "%4d %s %5.1f s  %s, seed %d: %d operations taken, %d refused, %d faults; then %d goroutines, %d MiB%s\n",
		p.rounds, mark, r.Took.Seconds(), nameOf(p.reference), seed,
		addTo(p.taken, r.Taken), addTo(p.refused, r.Refused), r.Faults, r.Goroutines, r.Heap>>20, about)
}

// addTo adds counts to others, and returns the sum of those that were added.
func addTo(all, counts map[string]int) (sum int) {
	for kind, n := range counts {
		all[kind] += n
		sum += n
	}
	return sum
}

// sumUp tells what was played.
func (p *oddPlay) sumUp() {
	var told []string
	for _, k := range odd.Kinds {
		kind := k.String()
		told = append(told, fmt.Sprintf("%s %d of %d", kind, p.taken[kind], p.taken[kind]+p.refused[kind]))
	}
	taken, refused := addTo(map[string]int{}, p.taken), addTo(map[string]int{}, p.refused)
	fmt.Printf("\n%s: %d seeds from %d on in %v; the API server took %d of %d operations: %s\n",
		nameOf(p.reference), p.rounds, p.seed, time.Since(p.begin).Round(time.Second),
		taken, taken+refused, strings.Join(slices.Compact(told), ", "))
}

// first are the first findings, one for each thing.
func (p *oddPlay) first() (first []oddFinding) {
	for _, f := range p.found {
		if !slices.ContainsFunc(first, func(other oddFinding) bool { return other.About == f.About }) {
			first = append(first, f)
		}
	}
	return first
}

// shortened returns a finding with as few operations as show it. At first it tries those on objects that the finding
// names, and those with the largest objects.
func (p *oddPlay) shortened(ctx context.Context, f oddFinding) oddFinding {
	fmt.Fprintf(os.Stderr, "\nseed %d, %s: %s\nlooking for the operations that show it, for %v at most\n",
		f.seed, f.About, f.Says, p.shorten)
	ctx, cancel := context.WithTimeout(ctx, p.shorten)
	defer cancel()
	fails := func(ops []odd.Op) bool {
		found := p.try(ctx, f.seed, ops, f.About)
		if len(found) > 0 {
			f.ops, f.Finding = ops, found[0]
			fmt.Fprintf(os.Stderr, "      %d operations show it\n", len(ops))
		}
		return len(found) > 0
	}
	fails(slices.DeleteFunc(slices.Clone(f.ops), func(op odd.Op) bool {
		return op.Name == "" || !strings.Contains(strings.ReplaceAll(f.Says, "/", " "), op.Namespace+" "+op.Name)
	}))
	bySize := slices.SortedFunc(slices.Values(f.ops), func(a, b odd.Op) int { return b.Size() - a.Size() })
	least := bySize[min(10, len(bySize)-1)].Size()
	fails(slices.DeleteFunc(slices.Clone(f.ops), func(op odd.Op) bool { return op.Size() <= least }))
	odd.Shorten(f.ops, fails)
	return f
}

// try plays operations on a new cluster with a new manager, and returns what they show of something. What cannot be
// played, or not in time, shows nothing.
func (p *oddPlay) try(ctx context.Context, seed uint64, ops []odd.Op, about string) []odd.Finding {
	if ctx.Err() != nil || len(ops) == 0 {
		return nil
	}
	player, err := odd.Start(ctx, p.program, p.reference, p.faulty)
	if err != nil {
		return nil
	}
	defer player.Close()
	result, err := player.Play(ctx, seed, ops, about)
	if err != nil {
		return nil
	}
	return result.Findings
}

// tell tells what was wrong, after which operations, and how to see it again.
func (p *oddPlay) tell(f oddFinding) {
	fmt.Printf("\n%s, %s: %s\n", nameOf(p.reference), f.About, f.Says)
	var numbers []string
	for _, op := range f.ops {
		fmt.Println("---\n" + op.String())
		numbers = append(numbers, strconv.Itoa(op.Number))
	}
	environment, flags := "", ""
	if !p.faulty {
		flags = "-faults=false "
	}
	if p.reference {
		environment = "REFERENCE=1 "
	}
	fmt.Printf("%d operations; again: %smake prove-odd ARGS=\"%s-seed %d -keep %s\"\n",
		len(f.ops), environment, flags, f.seed, strings.Join(numbers, ","))
}
