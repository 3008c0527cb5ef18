package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// patience is how long anything may take before bench gives up. At its own rate
// limit the original needs more than eight minutes for the orphans.
const patience = 15 * time.Minute

// moments tells when conditions on some state have come true. The state is
// changed by the handlers of informers, one change at a time.
type moments struct {
	mu      sync.Mutex
	waiting []*moment
}

type moment struct {
	condition func() bool
	reached   chan time.Time
}

// change changes the state and tells those whose condition has come true.
func (m *moments) change(change func()) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	m.waiting = slices.DeleteFunc(m.waiting, func(w *moment) bool {
		if !w.condition() {
			return false
		}
		w.reached <- now
		return true
	})
}

// when returns a channel that gets the time of the change that makes the
// condition true, or of now if it is true already.
func (m *moments) when(condition func() bool) <-chan time.Time {
	w := &moment{condition, make(chan time.Time, 1)}
	m.change(func() { m.waiting = append(m.waiting, w) })
	return w.reached
}

// wait returns what the channel of when gets. When that takes too long, the
// error tells what was seen instead.
func (m *moments) wait(ctx context.Context, what string, reached <-chan time.Time, seen func() string) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("given up after %s", patience))
	defer cancel()
	select {
	case at := <-reached:
		return at, nil
	case <-ctx.Done():
		m.mu.Lock()
		defer m.mu.Unlock()
		return time.Time{}, fmt.Errorf("waiting until %s, with %s: %w", what, seen(), context.Cause(ctx))
	}
}
