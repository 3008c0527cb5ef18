package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/history"
)

// record records the pods and ReplicaSets until ctx ends.
func (d *demo) record(ctx context.Context) (err error) {
	d.recording, err = history.Record(ctx, d.dynamic, namespace,
		corev1.SchemeGroupVersion.WithResource("pods"),
		appsv1.SchemeGroupVersion.WithResource("replicasets"),
	)
	return err
}

// available counts the pods that a Deployment counts on, by image.
func available(state history.State) map[string]int {
	counts := map[string]int{}
	for _, pod := range state.Pods() {
		if controller.IsPodActive(pod) && controller.IsPodReady(pod) {
			counts[image(pod)]++
		}
	}
	return counts
}

func image(pod *corev1.Pod) string { return pod.Spec.Containers[0].Image }

// check looks back over everything that was recorded.
func (d *demo) check(ctx context.Context) error {
	if _, err := d.recording.CatchUp(ctx); err != nil {
		return err
	}
	changes, err := d.recording.Changes()
	if err != nil {
		return err
	}
	d.story.step("Was anything lost or doubled? All %d changes of pods and ReplicaSets were recorded", len(changes))
	var (
		asked   int                // the most that the ReplicaSets have asked for together
		fewest  = replicas         // available pods, once all were
		full    bool               // all pods were available once
		created = map[string]int{} // by image
		orphans = map[string]bool{}
	)
	for i, state := range history.States(changes) {
		// What the ReplicaSets ask for together is what a Deployment keeps below its
		// limit: for a moment there may be more pods, when one ReplicaSet has created
		// sooner than another has deleted.
		sum := 0
		for _, rs := range state.ReplicaSets() {
			sum += int(*rs.Spec.Replicas)
		}
		asked = max(asked, sum)
		ready := 0
		for _, count := range available(state) {
			ready += count
		}
		if full = full || ready == replicas; full {
			fewest = min(fewest, ready)
		}
		if change := changes[i]; change.Resource == "pods" {
			if change.Type == watch.Added {
				created[image(history.As[corev1.Pod](change.Object))]++
			}
			if metav1.GetControllerOf(change.Object) == nil {
				orphans[change.Object.GetName()] = true
			}
		}
	}
	wrong := 0
	verify := func(ok bool, format string, args ...any) {
		mark := "✓"
		if !ok {
			mark = "✗"
			wrong++
		}
		d.story.say("%s %s", mark, fmt.Sprintf(format, args...))
	}
	verify(asked <= replicas+maxSurge, "never more than %d pods were asked for: at most %d", replicas+maxSurge, asked)
	verify(fewest >= replicas-maxUnavailable, "never fewer than %d available: at least %d", replicas-maxUnavailable, fewest)
	for _, image := range slices.Sorted(maps.Keys(created)) {
		verify(created[image] == replicas, "%d pods were created for %s, not one more: %d", replicas, image, created[image])
	}
	verify(len(orphans) == 0, "no pod was ever without an owner: %d were", len(orphans))
	if wrong > 0 {
		return fmt.Errorf("%d of the checks have failed", wrong)
	}
	return nil
}

func (d *demo) logContains(name, text string) (bool, error) {
	log, err := os.ReadFile(d.logFile(name))
	return strings.Contains(string(log), text), err
}
