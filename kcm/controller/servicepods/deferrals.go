package servicepods

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// Patience is how long a change that moves no traffic waits for one that does, to
// be written with it.
const Patience = time.Second

// Deferrals are the Services of which something was left unwritten because it can
// wait, since when, and since when that has been so.
type Deferrals struct {
	mu   sync.Mutex
	open map[cache.ObjectName]deferral
}

type deferral struct {
	// begun is when something was left for the first time, and trigger when the
	// first change of what is left happened, or zero if that is not known.
	begun, trigger time.Time
}

// NewDeferrals returns none.
func NewDeferrals() *Deferrals { return &Deferrals{open: map[cache.ObjectName]deferral{}} }

// MayWait tells whether nothing of a Service has waited for [Patience] yet.
func (d *Deferrals) MayWait(service cache.ObjectName) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	waits, ok := d.open[service]
	return !ok || time.Since(waits.begun) < Patience
}

// Since returns since when what is written now has been so: since trigger, or
// since something happened that was left until now. Zero is not known.
func (d *Deferrals) Since(service cache.ObjectName, trigger time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if left := d.open[service].trigger; !left.IsZero() && (trigger.IsZero() || left.Before(trigger)) {
		return left
	}
	return trigger
}

// Leave notes that something of a Service is left unwritten, and since when that has
// been so. It returns when it has to be written.
func (d *Deferrals) Leave(service cache.ObjectName, trigger time.Time) (after time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	waits, ok := d.open[service]
	if !ok {
		waits.begun = time.Now()
	}
	waits.trigger = trigger
	d.open[service] = waits
	return time.Until(waits.begun.Add(Patience))
}

// Done notes that nothing of a Service is left, or that it is gone.
func (d *Deferrals) Done(service cache.ObjectName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, service)
}
