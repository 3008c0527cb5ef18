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

// nested is the line that a verb and its arguments are.
func (p *Play) nested(c *call, name string, args []string) (func() error, error) {
	v := verbNamed(name)
	if v == nil {
		return nil, unknownVerb(name)
	}
	inner, err := v.called(c.TestScript, false, args)
	if err != nil {
		return nil, err
	}
	inner.meanwhile = c.meanwhile
	return func() error { return v.do(p, inner) }, nil
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
	every, times := argument[time.Duration](c, "--every"), argument[int](c, "COUNT")
	for n := 1; n <= times; n++ {
		var numbered []string
		for _, arg := range c.rest("ARG") {
			numbered = append(numbered, strings.ReplaceAll(arg, "{n}", strconv.Itoa(n)))
		}
		do, err := p.nested(c, argument[string](c, "VERB"), numbered)
		if err != nil {
			return err
		}
		if err := do(); err != nil && !(c.has("--anyway") && isAnswer(err)) {
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
	do, err := p.aside().nested(c, c.args[0], c.rest("ARG"))
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
