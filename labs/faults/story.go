package faults

//lint:file-ignore SA1019 Endpoints are deprecated, and a workload is about them.

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/labs/history"
)

// line is one of a story.
type line struct {
	at   time.Time
	says string
}

// story tells changes, with what was done from outside until the last of them,
// in order. With writes, it tells these and all that was done. A change that a
// reader of the story cannot see is left out.
func (s *stage) story(changes []history.Change, writes []Write) []string {
	lines := linesOf(changes)
	var last time.Time
	if len(lines) > 0 {
		last = lines[len(lines)-1].at
	}
	for _, d := range s.deeds {
		if writes != nil || !d.at.After(last) {
			lines = append(lines, line{d.at, "-- " + d.what})
		}
	}
	all, _, struck := s.traffic.seen()
	for _, each := range struck {
		if writes == nil && each.at.After(last) {
			continue
		}
		says := "-- FAULT " + each.fault.String() + ": " + each.fault.Does
		if each.write > 0 {
			says += " (" + all[each.write-1].What + ")"
		}
		lines = append(lines, line{each.at, says})
	}
	for i, w := range writes {
		lines = append(lines, line{w.At, fmt.Sprintf("   write %d: %s: %d", i+1, w.What, w.Code)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	var told []string
	for _, l := range lines {
		told = append(told, fmt.Sprintf("%6.2f s  %s", l.at.Sub(s.began).Seconds(), l.says))
	}
	return told
}

// linesOf tells the changes that can be seen.
func linesOf(changes []history.Change) (lines []line) {
	world := newWorld()
	for _, c := range changes {
		was, is, err := world.apply(c)
		if err != nil {
			continue // check has told
		}
		if before, after := shown(was), shown(is); before != after {
			kind := c.Object.GetKind()
			says := fmt.Sprintf("%s %s: %s", kind, c.Object.GetName(), after)
			if was == nil && is == nil {
				says = fmt.Sprintf("%s %s: %s", kind, c.Object.GetName(), c.Type)
			}
			lines = append(lines, line{c.Seen, says})
		}
	}
	return lines
}

// shown is what a story tells of an object.
func shown(o metav1.Object) string {
	deleted := ""
	if o != nil && o.GetDeletionTimestamp() != nil {
		deleted = ", is being deleted"
	}
	switch o := o.(type) {
	case *appsv1.Deployment:
		return fmt.Sprintf("%d replicas of %s%s", size(o.Spec.Replicas), imageOf(o.Spec.Template.Spec), deleted)
	case *appsv1.ReplicaSet:
		return fmt.Sprintf("%d replicas of %s, status %d, %d available%s%s", size(o.Spec.Replicas), imageOf(o.Spec.Template.Spec), o.Status.Replicas, o.Status.AvailableReplicas, ownedBy(o), deleted)
	case *corev1.Pod:
		state := string(o.Status.Phase)
		if isAvailable(o) {
			state = "available"
		}
		return state + ownedBy(o) + deleted
	case *batchv1.Job:
		listed := 0
		if uncounted := o.Status.UncountedTerminatedPods; uncounted != nil {
			listed = len(uncounted.Succeeded) + len(uncounted.Failed)
		}
		return fmt.Sprintf("%d active, %d succeeded, %d failed, %d written down%s", o.Status.Active, o.Status.Succeeded, o.Status.Failed, listed, deleted)
	case *discoveryv1.EndpointSlice:
		return fmt.Sprintf("%d endpoints, %d ready%s", len(o.Endpoints), readyIn(o), ownedBy(o))
	case *corev1.Endpoints:
		return fmt.Sprintf("%d subsets", len(o.Subsets))
	case *corev1.ResourceQuota:
		return usage(o)
	}
	return "gone"
}

func ownedBy(o metav1.Object) string {
	if metav1.GetControllerOf(o) == nil {
		return ", of nobody"
	}
	return ""
}
