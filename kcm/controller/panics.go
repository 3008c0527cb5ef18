package controller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// ReallyCrash has a panic in a sync or in a handler end the process, as it does
// in the original. Without it, a panic is the failure of one object. It is set
// before the loops start.
var ReallyCrash atomic.Bool

// errPanicked is in the error that a panic has become, which has been logged.
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
