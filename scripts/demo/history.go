package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// history keeps the pods as they are and what was wrong with them at any time
// since the recording began.
type history struct {
	mu      sync.Mutex
	pods    map[types.UID]*corev1.Pod
	created map[string]int    // by image
	full    bool              // all pods were available once
	sizes   map[types.UID]int // what each ReplicaSet asks for
	asked   int               // the most that the ReplicaSets have asked for together
	fewest  int               // available pods, once all were
	orphans []string
	changes int
}

// record watches pods and ReplicaSets until ctx ends.
func record(ctx context.Context, client kubernetes.Interface) (*history, error) {
	pods, err := client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	sets, err := client.AppsV1().ReplicaSets(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("watch ReplicaSets: %w", err)
	}
	h := &history{pods: map[types.UID]*corev1.Pod{}, created: map[string]int{}, sizes: map[types.UID]int{}, fewest: replicas}
	go each(pods, h.observePod)
	go each(sets, h.observeReplicaSet)
	return h, nil
}

// each calls observe with every object that the watch brings.
func each[T any](watcher watch.Interface, observe func(watch.EventType, T)) {
	for event := range watcher.ResultChan() {
		if obj, ok := event.Object.(T); ok {
			observe(event.Type, obj)
		}
	}
}

// observeReplicaSet keeps what the ReplicaSets ask for together. That is what
// a Deployment keeps below its limit: for a moment there may be more pods, when
// one ReplicaSet has created sooner than another has deleted.
func (h *history) observeReplicaSet(event watch.EventType, rs *appsv1.ReplicaSet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sizes[rs.UID] = int(*rs.Spec.Replicas)
	if event == watch.Deleted {
		delete(h.sizes, rs.UID)
	}
	sum := 0
	for _, size := range h.sizes {
		sum += size
	}
	h.asked = max(h.asked, sum)
}

func (h *history) observePod(event watch.EventType, pod *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes++
	switch event {
	case watch.Added:
		h.created[image(pod)]++
		h.pods[pod.UID] = pod
	case watch.Deleted:
		delete(h.pods, pod.UID)
	default:
		h.pods[pod.UID] = pod
	}
	if metav1.GetControllerOf(pod) == nil {
		h.orphans = append(h.orphans, pod.Name)
	}
	available := 0
	for _, pod := range h.pods {
		if isAvailable(pod) {
			available++
		}
	}
	h.full = h.full || available == replicas
	if h.full {
		h.fewest = min(h.fewest, available)
	}
}

func (h *history) availableByImage() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := map[string]int{}
	for _, pod := range h.pods {
		if isAvailable(pod) {
			counts[image(pod)]++
		}
	}
	return counts
}

func image(pod *corev1.Pod) string { return pod.Spec.Containers[0].Image }

func isAvailable(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && controller.IsPodReady(pod)
}

// check looks back over everything that was recorded.
func (d *demo) check(context.Context) error {
	h := d.history
	h.mu.Lock()
	defer h.mu.Unlock()
	d.story.step("Was anything lost or doubled? All %d changes of pods were recorded", h.changes)
	wrong := 0
	verify := func(ok bool, format string, args ...any) {
		mark := "✓"
		if !ok {
			mark = "✗"
			wrong++
		}
		d.story.say("%s %s", mark, fmt.Sprintf(format, args...))
	}
	verify(h.asked <= replicas+maxSurge, "never more than %d pods were asked for: at most %d", replicas+maxSurge, h.asked)
	verify(h.fewest >= replicas-maxUnavailable, "never fewer than %d available: at least %d", replicas-maxUnavailable, h.fewest)
	for _, image := range slices.Sorted(maps.Keys(h.created)) {
		verify(h.created[image] == replicas, "%d pods were created for %s, not one more: %d", replicas, image, h.created[image])
	}
	verify(len(h.orphans) == 0, "no pod was ever without an owner: %d were", len(h.orphans))
	if wrong > 0 {
		return fmt.Errorf("%d of the checks have failed", wrong)
	}
	return nil
}

func (d *demo) logContains(name, text string) (bool, error) {
	log, err := os.ReadFile(d.logFile(name))
	return strings.Contains(string(log), text), err
}
