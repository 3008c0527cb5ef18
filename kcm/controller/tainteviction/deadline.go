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

// deadline is when a pod has to leave its node because of a taint, and what made it so.
type deadline struct {
	at          time.Time
	pod         types.UID
	taint       corev1.Taint
	tolerations []corev1.Toleration
}

// deadlinesOf returns when a pod has to leave a node by each of its taints, in their order, and
// nothing if it may stay. As far as the objects say it, that is the same whoever asks, and whenever.
func deadlinesOf(pod *corev1.Pod, node *corev1.Node, now time.Time, compare bool) (all []deadline) {
	for _, taint := range node.Spec.Taints {
		patience, forEver := tolerates(pod.Spec.Tolerations, &taint, compare)
		if taint.Effect != corev1.TaintEffectNoExecute || forEver {
			continue
		}
		start := now
		if added := taint.TimeAdded; added != nil && added.Time.Before(now) {
			start = added.Time
		}
		// Or a pod would be deleted at once that comes to an old taint, and its owner would create the next one.
		if bound := boundAt(pod); bound.After(start) {
			start = bound
		}
		at := now.Add(start.Add(patience).Sub(now)) // as now is by a clock that nobody sets, so is this
		all = append(all, deadline{at, pod.UID, taint, pod.Spec.Tolerations})
	}
	return all
}

// boundAt returns since when a pod is on its node, which may be long after it was created: the API
// server writes that when it binds a pod.
func boundAt(pod *corev1.Pod) time.Time {
	at := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.LastTransitionTime.After(at) {
			at = c.LastTransitionTime.Time
		}
	}
	return at
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

// after returns the deadline of a pod that had others before. One that has the same cause as one of
// those keeps its time, whatever the clock says by now.
func (d deadline) after(before []deadline) deadline {
	for _, b := range before {
		stands := b.pod == d.pod && equality.Semantic.DeepEqual(b.tolerations, d.tolerations)
		same := equality.Semantic.DeepEqual(b.taint, d.taint)
		// The node was of no use since the first. One that goes back and forth would keep its pods for ever.
		replaced := b.taint.Key != d.taint.Key && isLost(b.taint) && isLost(d.taint)
		if stands && (same || replaced && b.at.Before(d.at)) {
			d.at = b.at
		}
	}
	return d
}

// isLost tells whether a taint says that the node is of no use.
func isLost(taint corev1.Taint) bool {
	return taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable
}
