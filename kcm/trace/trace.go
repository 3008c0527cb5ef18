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
	"bytes"
	"context"
	"fmt"
	"log/slog"
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
	// Done is a write whose answer, or whose failure, came after Seconds.
	Done Kind = "done"
	// Ended is the end of a sync that took Seconds.
	Ended Kind = "ended"
	// Lost stands for steps that were not told, because who listens does not keep up.
	Lost Kind = "lost"
)

// Step is one thing that a loop has done, as who listens reads it.
type Step struct {
	At        time.Time `json:"at"`
	What      Kind      `json:"what"`
	Loop      string    `json:"loop,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	// Sync tells the syncs of this process from each other. Queued has none.
	Sync    uint64  `json:"sync,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	// Facts are what a sync has seen or is going to do, by name.
	Facts map[string]any `json:"facts,omitempty"`
	// Request is the method and the path of what was asked of the API server, and
	// Code that of its answer, or 0 if there was none.
	Request string `json:"request,omitempty"`
	Code    int    `json:"code,omitempty"`
	// Error is why it has failed.
	Error string `json:"error,omitempty"`
	// Lost is how many steps are missing.
	Lost int `json:"lost,omitempty"`
}

// backlog is how many bytes wait for who listens, until steps are lost: about what
// the loops tell while some thousand pods are created.
const backlog = 4 << 20

// Listener is somebody who listens.
type Listener struct {
	namespace string // or "" for all
	news      chan struct{}
	// lines are what was told and not yet taken, and taken what was taken last, whose
	// memory is used again.
	lines, taken []byte
	lost         int
}

var (
	listening atomic.Int32  // how many listen
	syncs     atomic.Uint64 // how many syncs were told

	mu        sync.Mutex
	listeners = map[*Listener]bool{}
	line      bytes.Buffer // the step that is being told
	writer    = slog.NewJSONHandler(&line, &slog.HandlerOptions{ReplaceAttr: rename})
)

// Listen has steps kept that are about objects of a namespace, or of all if it is
// empty, from now on until Stop.
func Listen(namespace string) *Listener {
	l := &Listener{namespace: namespace, news: make(chan struct{}, 1)}
	mu.Lock()
	defer mu.Unlock()
	listeners[l] = true
	listening.Add(1)
	return l
}

// Stop ends what Listen has begun. Once more does no harm.
func (l *Listener) Stop() {
	mu.Lock()
	defer mu.Unlock()
	if listeners[l] {
		delete(listeners, l)
		listening.Add(-1)
	}
}

// Take returns the steps that nobody has taken yet, a line of JSON each. They stay as
// they are until the next call.
func (l *Listener) Take() []byte {
	mu.Lock()
	defer mu.Unlock()
	if l.lost > 0 {
		line.Reset()
		write(Lost, nil, []slog.Attr{slog.Int("lost", l.lost)})
		l.lines, l.lost = append(l.lines, line.Bytes()...), 0
	}
	l.lines, l.taken = l.taken[:0], l.lines
	return l.taken
}

// On tells whether anybody listens.
func On() bool { return listening.Load() > 0 }

// tell tells a step about an object of a namespace. It never waits.
func tell(what Kind, namespace string, about, more []slog.Attr) {
	mu.Lock()
	defer mu.Unlock()
	line.Reset()
	for l := range listeners {
		if l.namespace != "" && l.namespace != namespace {
			continue
		}
		if line.Len() == 0 {
			write(what, about, more)
		}
		l.hear(line.Bytes())
	}
}

// write writes a step into the line that is being told. Its time is now.
func write(what Kind, about, more []slog.Attr) {
	record := slog.NewRecord(time.Now(), slog.LevelInfo, string(what), 0)
	record.AddAttrs(about...)
	record.AddAttrs(more...)
	_ = writer.Handle(context.Background(), record) // a buffer takes everything
}

// rename gives what each record of slog has the names of a step's fields, and leaves
// out the level: all steps have the same.
func rename(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return attr
	}
	switch attr.Key {
	case slog.TimeKey:
		attr.Key = "at"
	case slog.MessageKey:
		attr.Key = "what"
	case slog.LevelKey:
		return slog.Attr{}
	}
	return attr
}

// hear gives a step to the listener, as far as that goes without waiting. What the
// listener misses it is told of by Take. The caller uses the step's memory again.
func (l *Listener) hear(step []byte) {
	if l.lost > 0 || len(l.lines)+len(step) > backlog {
		l.lost++
		return
	}
	l.lines = append(l.lines, step...)
	select {
	case l.news <- struct{}{}:
	default: // it is known that there is some
	}
}

// about returns the namespace of the object that a key of a queue names, and what
// all steps about it begin with. A key is a namespace and a name, or a name alone.
func about(loop string, key any) (namespace string, attrs []slog.Attr) {
	name, is := key.(cache.ObjectName)
	if !is {
		text := fmt.Sprint(key)
		if namespace, rest, found := strings.Cut(text, "/"); found {
			name = cache.NewObjectName(namespace, rest)
		} else {
			name.Name = text
		}
	}
	attrs = append(make([]slog.Attr, 0, 4), slog.String("loop", loop))
	if name.Namespace != "" {
		attrs = append(attrs, slog.String("namespace", name.Namespace))
	}
	return name.Namespace, append(attrs, slog.String("name", name.Name))
}

// Enqueue tells that a key was added to the queue of a loop, to be synced after a
// delay.
func Enqueue(loop string, key any, delay time.Duration) {
	namespace, attrs := about(loop, key)
	tell(Queued, namespace, attrs, []slog.Attr{slog.Float64("seconds", delay.Seconds())})
}

// Sync is one call of a loop's sync function that is told of.
type Sync struct {
	namespace string
	about     []slog.Attr
	began     time.Time
}

type syncKey struct{}

// Begin tells that a sync begins. What is done in the context belongs to it.
func Begin(ctx context.Context, loop string, key any) (context.Context, *Sync) {
	namespace, attrs := about(loop, key)
	s := &Sync{namespace, append(attrs, slog.Uint64("sync", syncs.Add(1))), time.Now()}
	tell(Begun, s.namespace, s.about, nil)
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

// End tells that the sync has ended, with an error or with nil.
func (s *Sync) End(err error) {
	attrs := []slog.Attr{slog.Float64("seconds", time.Since(s.began).Seconds())}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	tell(Ended, s.namespace, s.about, attrs)
}

// Sees tells what the sync of the context starts from. The facts are not put
// together while nobody listens.
func Sees(ctx context.Context, facts func() []slog.Attr) { tellFacts(ctx, Observed, facts) }

// Decides tells what the sync of the context is going to do.
func Decides(ctx context.Context, facts func() []slog.Attr) { tellFacts(ctx, Decided, facts) }

func tellFacts(ctx context.Context, what Kind, facts func() []slog.Attr) {
	if s := of(ctx); s != nil {
		tell(what, s.namespace, s.about, []slog.Attr{{Key: "facts", Value: slog.GroupValue(facts()...)}})
	}
}
