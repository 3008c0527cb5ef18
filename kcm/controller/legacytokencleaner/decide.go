package legacytokencleaner

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The labels of a token hold a day in UTC, as 2006-01-02.
const (
	// lastUsedLabel is the API server's. A token without it was not used while that has been noted.
	lastUsedLabel = "kubernetes.io/legacy-token-last-used"
	// invalidSinceLabel is this loop's. The API server refuses a token of which it says anything.
	invalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"
)

// token is a Secret for a token, and what else counts.
type token struct {
	*corev1.Secret
	// listed is whether the token's ServiceAccount lists it.
	listed bool
	// mounted is whether a pod names it.
	mounted bool
}

// verdict is what is to become of a token.
type verdict string

const (
	leave      verdict = "leave"
	invalidate verdict = "invalidate"
	remove     verdict = "remove"
)

// decide says what is to become of a token, provided that its use has been noted for the whole period
// before now. A day in a label counts to its end: a token that was used on that day may have been used
// a moment before midnight. If the label about the last use cannot be read, nobody knows when that
// was, and the token stays. A mark that cannot be read is made anew.
func decide(seen token, period time.Duration, now time.Time) verdict {
	since := now.Add(-period)
	if !seen.listed || seen.mounted || seen.DeletionTimestamp != nil || !seen.CreationTimestamp.Time.Before(since) {
		return leave
	}
	if lastUsed, noted := seen.Labels[lastUsedLabel]; noted {
		if ended, ok := endedBefore(lastUsed, since); !ok || !ended {
			return leave
		}
	}
	switch ended, ok := endedBefore(seen.Labels[invalidSinceLabel], since); {
	case !ok:
		return invalidate
	case ended:
		return remove
	}
	return leave
}

// endedBefore tells whether a day was over at a moment. It is not ok for what is no day.
func endedBefore(day string, moment time.Time) (ended, ok bool) {
	begin, err := time.Parse(time.DateOnly, day)
	return !begin.AddDate(0, 0, 1).After(moment), err == nil
}
