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

type oddPlay struct {
	runs      int
	seed      uint64 // the first
	shorten   time.Duration
	keep      string // the numbers of the operations that are to be played again; if empty, all of many seeds are played
	manager   string // its name
	reference bool
	player    *odd.Player
	told      map[string]bool // about what there was a finding
}

// playOdd has a manager live with odd objects, and is an error if it cannot.
func playOdd(ctx context.Context, args []string) error {
	p := &oddPlay{told: map[string]bool{}}
	p.manager, p.reference = subject()
	flags := flag.NewFlagSet("odd", flag.ExitOnError)
	flags.IntVar(&p.runs, "runs", 20, "how many seeds to play")
	flags.DurationVar(&p.shorten, "shorten", 10*time.Minute, "how long to look for fewer operations of a seed that fails")
	flags.Uint64Var(&p.seed, "seed", rand.Uint64N(100_000), "the first seed; by default any")
	flags.StringVar(&p.keep, "keep", "", "play the operations of the seed with these `numbers` again, such as 3,9,12")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "Usage: odd [flags]; REFERENCE=1 in the environment plays with the original")
		flags.PrintDefaults()
		fmt.Fprint(flags.Output(), odd.Rules)
	}
	_ = flags.Parse(args) // it ends the program itself
	program, err := finished()
	if err != nil {
		return err
	}
	p.player = &odd.Player{Program: program, Reference: p.reference}
	if p.keep != "" {
		p.runs = 1
	}
	for seed := p.seed; err == nil && seed < p.seed+uint64(p.runs); seed++ {
		err = p.playSeed(ctx, seed)
	}
	for _, f := range p.player.Growth() {
		p.tell(p.seed, nil, f)
	}
	err = errors.Join(err, p.player.Close())
	if err == nil && len(p.told) > 0 {
		err = fmt.Errorf("%s cannot bear all of it", p.manager)
	}
	return err
}

// playSeed plays a seed, and tells what became of it. The first about each thing is shortened.
func (p *oddPlay) playSeed(ctx context.Context, seed uint64) error {
	began, ops := time.Now(), odd.Draw(seed)
	if p.keep != "" {
		numbers := strings.Split(p.keep, ",")
		ops = slices.DeleteFunc(ops, func(op odd.Op) bool { return !slices.Contains(numbers, strconv.Itoa(op.Number)) })
		if len(ops) < len(numbers) {
			return fmt.Errorf("-keep %s: the numbers of operations are from 1 to %d", p.keep, odd.Ops)
		}
	}
	r, err := p.player.Play(ctx, seed, ops, "")
	if r == nil {
		return err
	}
	mark, about := "✓", ""
	for _, f := range r.Findings {
		mark, about = "✗", about+" | "+f.About
	}
	fmt.Fprintf(os.Stderr, "%s %5.1f s  %s, seed %d: %d of %d operations taken; then %d goroutines, %d MiB%s\n",
		mark, time.Since(began).Seconds(), p.manager, seed, r.Taken, len(ops),
		r.Metrics[odd.Goroutines], r.Metrics[odd.Heap]>>20, about)
	for _, f := range r.Findings {
		if !p.told[f.About] {
			few := ops
			if p.keep == "" {
				few, f = p.shortened(ctx, seed, ops, f)
			}
			p.tell(seed, few, f)
		}
	}
	return err
}

// shortened returns as few operations as show a finding, and what they show. At first it tries those on objects that
// the finding names. What cannot be played, or not in time, shows nothing.
func (p *oddPlay) shortened(ctx context.Context, seed uint64, ops []odd.Op, f odd.Finding) ([]odd.Op, odd.Finding) {
	fmt.Fprintf(os.Stderr, "\nseed %d, %s: %s\nlooking for the operations that show it, for %v at most\n",
		seed, f.About, f.Says, p.shorten)
	ctx, cancel := context.WithTimeout(ctx, p.shorten)
	defer cancel()
	fails := func(few []odd.Op) bool {
		if ctx.Err() != nil || len(few) == 0 {
			return false
		}
		r, _ := p.player.Play(ctx, seed, few, f.About)
		for i := 0; r != nil && i < len(r.Findings); i++ {
			if r.Findings[i].About == f.About {
				ops, f = few, r.Findings[i]
				fmt.Fprintf(os.Stderr, "      %d operations show it\n", len(ops))
				return true
			}
		}
		return false
	}
	fails(slices.DeleteFunc(slices.Clone(ops), func(op odd.Op) bool {
		return op.Name == "" || !strings.Contains(strings.ReplaceAll(f.Says, "/", " "), op.Namespace+" "+op.Name)
	}))
	odd.Shorten(ops, fails)
	return ops, f
}

// tell tells what was wrong, after which operations, and how to see it again.
func (p *oddPlay) tell(seed uint64, ops []odd.Op, f odd.Finding) {
	p.told[f.About] = true
	fmt.Printf("\n%s, %s: %s\n", p.manager, f.About, f.Says)
	var numbers []string
	for _, op := range ops {
		fmt.Println("---\n" + op.String())
		numbers = append(numbers, strconv.Itoa(op.Number))
	}
	fmt.Printf("%d operations; again: make prove-odd %sARGS=\"-seed %d -keep %s\"\n",
		len(ops), map[bool]string{true: "REFERENCE=1 "}[p.reference], seed, strings.Join(numbers, ","))
}
