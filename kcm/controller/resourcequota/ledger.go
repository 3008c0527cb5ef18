package resourcequota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
)

const (
	// recountDelay is how old a charge of the API server is when the loop believes
	// that its object is not coming, and how long quotas wait for a look because
	// there is more than before, which the API server has counted already.
	recountDelay = 5 * time.Second
	// lateness is how long a charge is believed whose object an informer may not
	// show yet because it is late. An informer to which nothing happens seems late.
	lateness = 30 * time.Second
)

// ledger is by how much the sum in the status of a quota may be lowered. It is
// not enough that the sum over the objects is lower: what the API server has
// charged a moment ago the informers may not show yet.
type ledger struct {
	uid types.UID
	// gone is what objects have used and use no more, and the status still has.
	gone corev1.ResourceList

	// then is what a status said at an earlier look, without what has gone since.
	then    corev1.ResourceList
	version string
	at      time.Time
	// shown is when informers were as new as that status, if they were late.
	shown time.Time
}

// free notes what an object uses no more.
func (l *ledger) free(quota *corev1.ResourceQuota, before, after charge) {
	asked := selectors(&quota.Spec)
	gone := quotav1.SubtractWithNonNegativeResult(before.within(asked), after.within(asked))
	l.gone, l.then = quotav1.Add(l.gone, gone), quotav1.Subtract(l.then, gone)
}

// restore takes back what was freed and is in the status nevertheless.
func (l *ledger) restore(freed corev1.ResourceList) { l.gone = quotav1.Add(l.gone, freed) }

// settle returns what may be taken away from a quota's sums. That is what has
// gone, and of what was there at an earlier look, what is not in the sums by now:
// it was charged and never stored. While something else is missing there, settle
// returns how long to wait for it.
func (l *ledger) settle(quota *corev1.ResourceQuota, sums corev1.ResourceList, isLate func(corev1.ResourceName, string) bool,
	now time.Time) (freed corev1.ResourceList, wait time.Duration) {
	missing := func(used corev1.ResourceList) corev1.ResourceList {
		known := quotav1.Mask(used, quotav1.ResourceNames(sums))
		return quotav1.RemoveZeros(quotav1.SubtractWithNonNegativeResult(known, sums))
	}
	freed, l.gone = l.gone, nil
	never := missing(l.then)
	for name := range never {
		if now.Sub(l.at) < lateness && isLate(name, l.version) {
			l.shown = now
		}
	}
	if now.Sub(l.shown) >= recountDelay {
		freed = quotav1.Add(freed, never)
		l.then, l.version = quotav1.Subtract(quota.Status.Used, freed), quota.ResourceVersion
		l.at, l.shown = now, now
	}
	if len(missing(quotav1.Subtract(quota.Status.Used, freed))) > 0 {
		wait = recountDelay - now.Sub(l.shown)
	}
	return freed, wait
}
