package play

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// repeatable tells which verbs may follow repeat and meanwhile.
func repeatable(outer, inner string) error {
	can := []string{"create", "patch", "delete", "get"}
	if outer == "meanwhile" {
		can = append(can, "repeat")
	}
	if !slices.Contains(can, inner) {
		return fmt.Errorf("%s cannot be followed by %s, but by %s", outer, inner, strings.Join(can, ", "))
	}
	return nil
}

// nested is the line that the arguments from the verb on are.
func (p *Play) nested(c *call, args []string) (func() error, error) {
	v := verbNamed(args[0])
	if v == nil {
		return nil, unknownVerb(args[0])
	}
	return func() error { return v.do(p, &call{TestScript: c.TestScript, args: args[1:], meanwhile: c.meanwhile}) }, nil
}

func count(arg string) (int, error) {
	n, err := strconv.Atoi(arg)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a number of at least 1", arg)
	}
	return n, nil
}

func interval(flag string) (time.Duration, error) {
	every, err := time.ParseDuration(strings.TrimPrefix(flag, "--every="))
	if err != nil {
		return 0, fmt.Errorf("%s: write --every=DURATION, such as 100ms or 2s", flag)
	}
	return every, nil
}

func (p *Play) repeat(c *call) error {
	args, every := c.args, time.Duration(0)
	anyway := args[0] == "--anyway"
	if anyway {
		args = args[1:]
	}
	var err error
	if strings.HasPrefix(args[0], "--every") {
		if every, err = interval(args[0]); err != nil {
			return err
		}
		args = args[1:]
	}
	times, err := count(args[0])
	if err != nil {
		return err
	}
	for n := 1; n <= times; n++ {
		var numbered []string
		for _, arg := range args[1:] {
			numbered = append(numbered, strings.ReplaceAll(arg, "{n}", strconv.Itoa(n)))
		}
		do, err := p.nested(c, numbered)
		if err != nil {
			return err
		}
		if err := do(); err != nil && !(anyway && isAnswer(err)) {
			return fmt.Errorf("time %d of %d: %w", n, times, err)
		}
		if n == times {
			break
		}
		select {
		case <-time.After(every):
		case <-p.ctx.Done():
			return errInterrupted
		}
	}
	return nil
}

// meanwhile does what a script goes on without waiting for.
func (p *Play) meanwhile(c *call) error {
	c.meanwhile = true
	do, err := p.aside().nested(c, c.args)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	p.meanwhiles = append(p.meanwhiles, done)
	go func() {
		err := do()
		if err != nil {
			err = fmt.Errorf("%s: %w", spell("meanwhile", false, c.args), err)
		}
		done <- err
	}()
	return nil
}

// join waits for what was done meanwhile.
func (p *Play) join() error {
	var errs []error
	for _, done := range p.meanwhiles {
		errs = append(errs, <-done)
	}
	p.meanwhiles = nil
	return errors.Join(errs...)
}
