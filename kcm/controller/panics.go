package controller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// ReallyCrash has a panic in a sync or in a handler end the process, as it does
// in the original. Without it, a panic is the failure of one object. It is set
// before the loops start.
var ReallyCrash atomic.Bool

// errPanicked is in the error that a panic has become.
var errPanicked = errors.New("panic")

// Recovered returns a function that calls f. If f panics, that is logged with its
// stack and with the given keys and values, counted in kcm_panics_total, and
// returned as an error.
//
// A panic ends a goroutine wherever it is: what f has locked stays locked, and
// what it was changing stays half changed, unless deferred calls see to it. So
// only those may call Recovered that know that they can go on. Each goroutine
// needs its own: none can recover from the panic of another.
func Recovered(ctx context.Context, f func() error, keysAndValues ...any) func() error {
	return func() (err error) {
		defer func() {
			if ReallyCrash.Load() {
				return
			}
			p := recover()
			if p == nil {
				return
			}
			panics.Inc()
			ctx := klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), keysAndValues...))
			for _, tell := range utilruntime.PanicHandlers {
				tell(ctx, p)
			}
			err = fmt.Errorf("%w: %v", errPanicked, p)
		}()
		return f()
	}
}

type eventsKey struct{}

// WithEvents returns a context in which a [Loop] that runs records an event about
// an object whose sync has panicked.
func WithEvents(ctx context.Context, events record.EventRecorder) context.Context {
	return context.WithValue(ctx, eventsKey{}, events)
}

// panicked puts back a key whose sync has panicked, however often it has, and
// records an event about its object.
func (l *Loop[K]) panicked(ctx context.Context, key K, err error) {
	l.queue.AddRateLimited(key)
	events, ok := ctx.Value(eventsKey{}).(record.EventRecorder)
	if !ok || l.Objects == nil {
		return
	}
	if obj, exists, _ := l.Objects.GetByKey(fmt.Sprint(key)); exists {
		events.Eventf(obj.(runtime.Object), corev1.EventTypeWarning, "SyncPanicked",
			"The %s has met a defect of its own with this object, and will try again: %v", l.Name, err)
	}
}
