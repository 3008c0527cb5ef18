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

// oddPlay plays seeds with odd objects, and gathers what they find.
type oddPlay struct {
	runs      int
	seed      uint64 // the first
	shorten   time.Duration
	faulty    bool
	keep      []int // the numbers of the operations that are to be played again; nil plays all of many seeds
	program   string
	reference bool

	player  *odd.Player
	metrics []map[string]int // of this player's manager, after each seed
	found   []oddFinding     // the first about each thing
}

// oddFinding is what operations of a seed have shown. Growth is shown by all.
type oddFinding struct {
	seed uint64
	ops  []odd.Op
	odd.Finding
}

func parseOdd(args []string) (*oddPlay, error) {
	p := &oddPlay{reference: os.Getenv("REFERENCE") == "1"}
	flags := flag.NewFlagSet("odd", flag.ContinueOnError)
	flags.IntVar(&p.runs, "runs", 20, "how many seeds to play")
	flags.DurationVar(&p.shorten, "shorten", 10*time.Minute, "how long to look for fewer operations of a seed that fails")
	flags.Uint64Var(&p.seed, "seed", rand.Uint64N(100_000), "the first seed; by default any")
	flags.BoolVar(&p.faulty, "faults", true, "refuse some writes of the manager, and lose some answers, while a seed is played")
	flags.Func("keep", "play the operations of the seed with these `numbers` again, such as 3,9,12", func(text string) error {
		p.runs = 1
		for number := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(number)
			if err != nil || n < 1 || n > odd.Ops {
				return fmt.Errorf("%q is not from 1 to %d", number, odd.Ops)
			}
			p.keep = append(p.keep, n)
		}
		return nil
	})
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "Usage: odd [flags]; REFERENCE=1 in the environment plays with the original")
		flags.PrintDefaults()
		fmt.Fprint(flags.Output(), "\nWhat has to hold:\n")
		for _, about := range odd.Abouts {
			fmt.Fprintf(flags.Output(), "  %-11s %s\n", about[0], about[1])
		}
	}
	return p, parse(flags, args)
}

// playOdd has a manager live with odd objects, and is an error if it cannot.
func playOdd(ctx context.Context, args []string) error {
	p, err := parseOdd(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err == nil {
		p.program, err = finished()
	}
	if err != nil {
		return err
	}
	for seed := p.seed; err == nil && seed < p.seed+uint64(p.runs); seed++ {
		err = p.playSeed(ctx, seed)
	}
	for _, says := range odd.Growth(p.metrics) {
		p.found = append(p.found, oddFinding{p.seed, nil, odd.Finding{About: "growth", Says: says}})
	}
	err = errors.Join(err, p.end())
	for _, f := range p.found {
		if p.keep == nil && f.ops != nil && ctx.Err() == nil {
			f = p.shortened(ctx, f)
		}
		p.tell(f)
	}
	if err == nil && len(p.found) > 0 {
		err = fmt.Errorf("%s cannot bear all of it", nameOf(p.reference))
	}
	return err
}

// playSeed plays a seed, keeps what became of it, and tells it.
func (p *oddPlay) playSeed(ctx context.Context, seed uint64) error {
	began := time.Now()
	r, err := p.play(ctx, seed, slices.DeleteFunc(odd.Draw(seed), func(op odd.Op) bool {
		return p.keep != nil && !slices.Contains(p.keep, op.Number)
	}), "")
	if r == nil {
		return err
	}
	mark, about := "✓", ""
	for _, f := range r.Findings {
		mark, about = "✗", about+" | "+f.About
		if !slices.ContainsFunc(p.found, func(other oddFinding) bool { return other.About == f.About }) {
			p.found = append(p.found, oddFinding{seed, r.Sent, f})
		}
	}
	fmt.Fprintf(os.Stderr, "%s %5.1f s  %s, seed %d: %d of %d operations taken, %d faults; then %d goroutines, %d MiB%s\n",
		mark, time.Since(began).Seconds(), nameOf(p.reference), seed, r.Taken, len(r.Sent), r.Faults,
		r.Metrics[odd.Goroutines], r.Metrics[odd.Heap]>>20, about)
	return err
}

// play plays operations with the player that there is, or with a new one. One that has found something, or was to look
// for one thing only, ends: what is left in its cluster might disturb what is played next. Without a result nothing was
// played.
func (p *oddPlay) play(ctx context.Context, seed uint64, ops []odd.Op, about string) (r *odd.Result, err error) {
	if p.player == nil {
		if p.player, err = odd.Start(ctx, p.program, p.reference, p.faulty); err != nil {
			return nil, err
		}
	}
	r, err = p.player.Play(ctx, seed, ops, about)
	if err != nil || len(r.Findings) > 0 || about != "" {
		return r, errors.Join(err, p.end())
	}
	p.metrics = append(p.metrics, r.Metrics)
	return r, nil
}

func (p *oddPlay) end() (err error) {
	if p.player != nil {
		err = p.player.Close()
	}
	p.player, p.metrics = nil, nil
	return err
}

// shortened returns a finding with as few operations as show it. At first it tries those on objects that the finding
// names. What cannot be played, or not in time, shows nothing.
func (p *oddPlay) shortened(ctx context.Context, f oddFinding) oddFinding {
	fmt.Fprintf(os.Stderr, "\nseed %d, %s: %s\nlooking for the operations that show it, for %v at most\n",
		f.seed, f.About, f.Says, p.shorten)
	ctx, cancel := context.WithTimeout(ctx, p.shorten)
	defer cancel()
	fails := func(ops []odd.Op) bool {
		if ctx.Err() != nil || len(ops) == 0 {
			return false
		}
		r, _ := p.play(ctx, f.seed, ops, f.About)
		if r == nil || len(r.Findings) == 0 {
			return false
		}
		f.ops, f.Finding = ops, r.Findings[0]
		fmt.Fprintf(os.Stderr, "      %d operations show it\n", len(ops))
		return true
	}
	fails(slices.DeleteFunc(slices.Clone(f.ops), func(op odd.Op) bool {
		return op.Name == "" || !strings.Contains(strings.ReplaceAll(f.Says, "/", " "), op.Namespace+" "+op.Name)
	}))
	odd.Shorten(f.ops, fails)
	return f
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
