// Package trace tells whoever listens what the loops of this process do, step
// by step: what waits in their queues and for how long, and for each sync what
// it has observed, decided and done. Metrics say how often and how long; this
// says what and why.
//
// While nobody listens a step costs a look at a counter, a few nanoseconds, and
// nothing is put together. Nobody who listens can slow a loop down: who does
// not keep up loses steps, and is told how many.
package trace

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
)

// Kind is what a step is about.
type Kind string

const (
	// Queued is a key that was added to a queue, to be synced at once or after Seconds.
	Queued Kind = "queued"
	// Begun is a sync that begins. The steps that follow it up to Ended have its number.
	Begun Kind = "begun"
	// Observed and Decided have Facts.
	Observed Kind = "observed"
	Decided  Kind = "decided"
	// Done is a write that the API server has answered, after Seconds.
	Done Kind = "done"
	// Ended is the end of a sync that took Seconds.
	Ended Kind = "ended"
	// Lost stands for steps that were not told, because who listens does not keep up.
	Lost Kind = "lost"
)

// Facts are what a sync has seen or is going to do, by name.
type Facts map[string]any

// Step is one thing that a loop has done.
type Step struct {
	At        time.Time `json:"at"`
	What      Kind      `json:"what"`
	Loop      string    `json:"loop,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	// Sync tells the syncs of this process from each other. Queued has none.
	Sync    uint64  `json:"sync,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Facts   Facts   `json:"facts,omitzero"`
	// Request is the method and the path of what was asked of the API server, and
	// Code that of its answer, or 0 if there was none.
	Request string `json:"request,omitempty"`
	Code    int    `json:"code,omitempty"`
	// Error is why it has failed.
	Error string `json:"error,omitempty"`
	// Lost is how many steps are missing.
	Lost int `json:"lost,omitempty"`
}

// backlog is how many steps wait for who listens, until some are lost: about
// what the loops tell while a thousand pods are created.
const backlog = 1 << 14

// listener is somebody who listens.
type listener struct {
	namespace string // or "" for all
	steps     chan Step
	lost      int
}

var (
	listening atomic.Int32 // how many listen
	mu        sync.Mutex
	listeners = map[*listener]bool{}
	syncs     atomic.Uint64 // how many syncs were told
)

// Listen returns the steps that are about objects of a namespace, or of all if it
// is empty, from now on until stop is called.
func Listen(namespace string) (steps <-chan Step, stop func()) {
	l := &listener{namespace: namespace, steps: make(chan Step, backlog)}
	mu.Lock()
	defer mu.Unlock()
	listeners[l] = true
	listening.Add(1)
	return l.steps, sync.OnceFunc(func() {
		mu.Lock()
		defer mu.Unlock()
		delete(listeners, l)
		listening.Add(-1)
	})
}

// On tells whether anybody listens.
func On() bool { return listening.Load() > 0 }

// Tell tells a step. Its time is filled in. It never waits.
func Tell(step Step) {
	step.At = time.Now()
	mu.Lock()
	defer mu.Unlock()
	for l := range listeners {
		if l.namespace == "" || l.namespace == step.Namespace {
			l.hear(step)
		}
	}
}

// hear keeps a step for who listens, if there is room for it and for what has to
// be said before it.
func (l *listener) hear(step Step) {
	if l.lost > 0 && len(l.steps) < backlog-1 {
		l.steps <- Step{At: step.At, What: Lost, Lost: l.lost}
		l.lost = 0
	}
	if l.lost == 0 && len(l.steps) < backlog {
		l.steps <- step
	} else {
		l.lost++
	}
}

// About returns the beginning of a step about the object that a key of a queue
// names: a namespace and a name, or a name alone.
func About(what Kind, loop string, key any) Step {
	name, is := key.(cache.ObjectName)
	if !is {
		text := fmt.Sprint(key)
		if namespace, rest, found := strings.Cut(text, "/"); found {
			name = cache.NewObjectName(namespace, rest)
		} else {
			name.Name = text
		}
	}
	return Step{What: what, Loop: loop, Namespace: name.Namespace, Name: name.Name}
}

// Sync is one call of a loop's sync function that is told of. That of nil is not.
type Sync struct {
	about Step
	began time.Time
}

type syncKey struct{}

// Begin tells that a sync begins. What is done in the context belongs to it.
func Begin(ctx context.Context, loop string, key any) (context.Context, *Sync) {
	s := &Sync{about: About(Begun, loop, key), began: time.Now()}
	s.about.Sync = syncs.Add(1)
	Tell(s.about)
	return context.WithValue(ctx, syncKey{}, s), s
}

// of returns the sync that a context belongs to, or nil if nobody wants to know.
func of(ctx context.Context) *Sync {
	if !On() {
		return nil
	}
	s, _ := ctx.Value(syncKey{}).(*Sync)
	return s
}

// step returns the beginning of one of the sync's steps.
func (s *Sync) step(what Kind) Step {
	step := s.about
	step.What = what
	return step
}

// End tells that the sync has ended, with an error or with nil.
func (s *Sync) End(err error) {
	step := s.step(Ended)
	step.Seconds = time.Since(s.began).Seconds()
	if err != nil {
		step.Error = err.Error()
	}
	Tell(step)
}

// Sees tells what the sync of the context starts from. The facts are not put
// together while nobody listens.
func Sees(ctx context.Context, facts func() Facts) { tellFacts(ctx, Observed, facts) }

// Decides tells what the sync of the context is going to do.
func Decides(ctx context.Context, facts func() Facts) { tellFacts(ctx, Decided, facts) }

func tellFacts(ctx context.Context, what Kind, facts func() Facts) {
	if s := of(ctx); s != nil {
		step := s.step(what)
		step.Facts = facts()
		Tell(step)
	}
}
