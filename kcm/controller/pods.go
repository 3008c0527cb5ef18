package controller

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// IsPodActive tells whether a pod runs or may still come to run: it has not
// finished and nobody has asked for its deletion. Loops that keep a number of
// pods count these.
func IsPodActive(pod *corev1.Pod) bool {
	return !isPodFinished(pod) && pod.DeletionTimestamp == nil
}

// IsPodTerminating tells whether a pod's deletion was asked for and its
// containers may still be running. A pod that has finished and waits only for
// a finalizer does not count.
func IsPodTerminating(pod *corev1.Pod) bool {
	return !isPodFinished(pod) && pod.DeletionTimestamp != nil
}

// isPodFinished tells whether all containers have ended, never to start again.
func isPodFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// IsPodReady tells whether the pod's Ready condition is true.
func IsPodReady(pod *corev1.Pod) bool {
	_, ready := PodReadySince(pod)
	return ready
}

// PodReadySince returns since when the pod has been ready, and whether it is.
// The time is zero when the condition does not give one.
func PodReadySince(pod *corev1.Pod) (time.Time, bool) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.LastTransitionTime.Time, condition.Status == corev1.ConditionTrue
		}
	}
	return time.Time{}, false
}

// IsPodAvailable tells whether the pod has been ready for minReadySeconds. With
// zero seconds, ready is enough.
func IsPodAvailable(pod *corev1.Pod, minReadySeconds int32, now time.Time) bool {
	since, ready := PodReadySince(pod)
	if !ready || minReadySeconds == 0 {
		return ready
	}
	at := since.Add(time.Duration(minReadySeconds) * time.Second)
	return !since.IsZero() && !at.After(now)
}

// podIndex is the name of the index behind [PodIndex].
const podIndex = "podController"

// PodIndex finds the pods of one controller without a look at all others. All
// loops share one index, which the first of them adds to the pod informer.
type PodIndex struct {
	indexer cache.Indexer
}

// NewPodIndex adds the index to the pod informer unless it is there already.
func NewPodIndex(informer cache.SharedIndexInformer) PodIndex {
	indexer := informer.GetIndexer()
	if _, exists := indexer.GetIndexers()[podIndex]; !exists {
		err := informer.AddIndexers(cache.Indexers{podIndex: func(obj any) ([]string, error) {
			return []string{podIndexKey(obj.(*corev1.Pod))}, nil
		}})
		if err != nil {
			// Only an informer that was stopped refuses an index.
			utilruntime.HandleError(fmt.Errorf("index pods by controller: %w", err))
		}
	}
	return PodIndex{indexer: indexer}
}

// podIndexKey has the namespace in it, because an owner and what it owns are
// always in the same one. A pod elsewhere that claims to have this owner is
// not the owner's: anyone who may create pods there could write that.
func podIndexKey(pod *corev1.Pod) string {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		return pod.Namespace + "/" + string(ref.UID)
	}
	return pod.Namespace + "/"
}

// OwnedBy returns the pods whose controller reference names the owner, whether
// they match its selector or not. They are the cache's: copy before changing.
func (p PodIndex) OwnedBy(owner metav1.Object) ([]*corev1.Pod, error) {
	return p.lookUp(owner.GetNamespace() + "/" + string(owner.GetUID()))
}

// Orphans returns the pods of a namespace that have no controller.
func (p PodIndex) Orphans(namespace string) ([]*corev1.Pod, error) {
	return p.lookUp(namespace + "/")
}

func (p PodIndex) lookUp(key string) ([]*corev1.Pod, error) {
	objects, err := p.indexer.ByIndex(podIndex, key)
	if err != nil {
		return nil, fmt.Errorf("look up pods of controller %q: %w", key, err)
	}
	pods := make([]*corev1.Pod, 0, len(objects))
	for _, obj := range objects {
		pods = append(pods, obj.(*corev1.Pod))
	}
	return pods, nil
}
