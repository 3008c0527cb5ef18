package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// How long after a failure the next pod is created at least, and at most. It
// doubles with each failure since the last success.
const (
	shortestPause = 10 * time.Second
	longestPause  = 10 * time.Minute
)

// failures are the pods of a Job that have failed since one last succeeded, and
// when. A pod may be noted as often as one likes: what is kept does not depend on
// what was counted when.
type failures struct {
	at      map[types.UID]time.Time
	success time.Time
}

// note returns the failures since the last success, by what was noted before and
// what these pods show. What was noted before is not changed.
func (f failures) note(job *batchv1.Job, pods []*corev1.Pod) failures {
	noted := failures{at: map[types.UID]time.Time{}, success: f.success}
	for _, pod := range pods {
		if at := finishedAt(pod); pod.Status.Phase == corev1.PodSucceeded && at.After(noted.success) {
			noted.success = at
		} else if hasFailed(job, pod) && (hasFinalizer(pod) || pod.DeletionTimestamp == nil) {
			noted.at[pod.UID] = at
		}
	}
	for uid, at := range f.at {
		if _, known := noted.at[uid]; !known {
			noted.at[uid] = at
		}
	}
	for uid, at := range noted.at {
		if !at.After(noted.success) {
			delete(noted.at, uid)
		}
	}
	return noted
}

// wait returns how long it is until the next pod may be created.
func (f failures) wait(now time.Time) time.Duration {
	var last time.Time
	for _, at := range f.at {
		if at.After(last) {
			last = at
		}
	}
	return wait(len(f.at), last, now)
}

// waits returns, of the indexes that are to be tried again, those whose pause is
// over, and how long it is until that of the next one is.
func waits(list []int, replaced map[int]*corev1.Pod, now time.Time) (ready []int, next time.Duration) {
	ready = slices.DeleteFunc(slices.Clone(list), func(index int) bool {
		pod := replaced[index]
		if pod == nil {
			return false
		}
		left := wait(tries(pod)+1, finishedAt(pod), now)
		if left > 0 && (next == 0 || left < next) {
			next = left
		}
		return left > 0
	})
	return ready, next
}

// wait returns how much is left of the pause after so many failures in a row, of
// which the last was at that time. After none nothing is left: last is zero then.
func wait(failed int, last, now time.Time) time.Duration {
	pause := shortestPause
	for ; failed > 1 && pause < longestPause; failed-- {
		pause *= 2
	}
	return max(last.Add(min(pause, longestPause)).Sub(now), 0)
}
