package tainteviction

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// deadline is when a pod has to leave its node, and what made it so.
type deadline struct {
	at          time.Time
	pod         types.UID
	taint       corev1.Taint
	tolerations []corev1.Toleration
}

// deadlineOf returns when a pod has to leave a node, or nil if it may stay: the first of what its
// taints say. A taint counts from when it was added, or from now if it does not say that, or says
// that it will be. A pod that was created later has all its time. Otherwise one that tolerates an
// old taint for a minute would be deleted at once, and its owner would create the next one, without
// end. With compare, tolerations may compare numbers.
func deadlineOf(pod *corev1.Pod, node *corev1.Node, now time.Time, compare bool) *deadline {
	var first *deadline
	for _, taint := range node.Spec.Taints {
		patience, forEver := tolerates(pod.Spec.Tolerations, &taint, compare)
		if taint.Effect != corev1.TaintEffectNoExecute || forEver {
			continue
		}
		start := now
		if added := taint.TimeAdded; added != nil && added.Time.Before(now) {
			start = added.Time
		}
		if created := pod.CreationTimestamp.Time; created.After(start) {
			start = created
		}
		if at := start.Add(patience); first == nil || at.Before(first.at) {
			first = &deadline{at, pod.UID, taint, pod.Spec.Tolerations}
		}
	}
	return first
}

// tolerates returns for how long a taint is tolerated: as the first toleration says that matches it,
// however long others would. What no toleration matches is not tolerated at all.
func tolerates(all []corev1.Toleration, taint *corev1.Taint, compare bool) (patience time.Duration, forEver bool) {
	i := slices.IndexFunc(all, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(klog.Background(), taint, compare)
	})
	switch {
	case i < 0:
		return 0, false
	case all[i].TolerationSeconds == nil:
		return 0, true
	}
	return controller.Seconds(max(*all[i].TolerationSeconds, 0)), false
}

// after returns the deadline of a pod that had another one before, or nil. By the same taint it is
// never later. It is not either when a node that was not ready falls silent, or the other way round:
// that is a new taint, with a new time, but the node was of no use since the first, and one that
// goes back and forth would keep its pods for ever.
func (d *deadline) after(before *deadline) *deadline {
	if before == nil || before.pod != d.pod || !equality.Semantic.DeepEqual(before.tolerations, d.tolerations) {
		return d
	}
	same := equality.Semantic.DeepEqual(before.taint, d.taint)
	replaced := before.taint.Key != d.taint.Key && isLost(before.taint) && isLost(d.taint)
	if (same || replaced) && before.at.Before(d.at) {
		return &deadline{before.at, d.pod, d.taint, d.tolerations}
	}
	return d
}

// isLost tells whether a taint says that the node is of no use.
func isLost(taint corev1.Taint) bool {
	return taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable
}
