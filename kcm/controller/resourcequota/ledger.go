package resourcequota

import (
	"slices"
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
	// doubted is the version of the quota on top of which a write has failed, or has
	// succeeded and the answer was lost.
	doubted string

	// then is what a status said at an earlier look of what can be counted, without
	// what has gone since.
	then    corev1.ResourceList
	version string
	// due is when all that was charged then and stored is to be seen: recountDelay
	// after the first look that found the informers as new as that status, and at the
	// latest after lateness.
	due time.Time
}

// free notes by how much less an object uses of what a quota counts. So much may
// be taken away, once.
func (l *ledger) free(quota *corev1.ResourceQuota, before, after charge) {
	asked := selectors(&quota.Spec)
	gone := quotav1.SubtractWithNonNegativeResult(before.within(asked), after.within(asked))
	l.gone, l.then = quotav1.Add(l.gone, gone), quotav1.Subtract(l.then, gone)
}

// restore takes back what was freed and is in the status nevertheless.
func (l *ledger) restore(freed corev1.ResourceList) { l.gone = quotav1.Add(l.gone, freed) }

// doubt takes back what a write was to free that may have succeeded. As long as the
// quota is shown as it was, the write may be tried again: one of the two will be a
// conflict. When it is shown otherwise, it is not known who has written it.
func (l *ledger) doubt(quota *corev1.ResourceQuota, freed corev1.ResourceList) {
	l.restore(freed)
	l.doubted = quota.ResourceVersion
}

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
	if l.doubted != "" && l.doubted != quota.ResourceVersion {
		l.gone, l.doubted = nil, ""
	}
	freed, l.gone = l.gone, nil
	if !now.Before(l.due) {
		freed = quotav1.Add(freed, missing(l.then))
		l.then = quotav1.Mask(quotav1.Subtract(quota.Status.Used, freed), quotav1.ResourceNames(sums))
		l.version, l.due = quota.ResourceVersion, now.Add(lateness)
	}
	late := func(name corev1.ResourceName) bool { return isLate(name, l.version) }
	if soon := now.Add(recountDelay); soon.Before(l.due) && !slices.ContainsFunc(quotav1.ResourceNames(missing(l.then)), late) {
		l.due = soon
	}
	if len(missing(quotav1.Subtract(quota.Status.Used, freed))) > 0 {
		wait = min(recountDelay, l.due.Sub(now))
	}
	return freed, wait
}
