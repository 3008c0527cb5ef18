// Package servicepods says which pods stand behind a Service, and where they
// are reached. The loops that write this down, as Endpoints and as
// EndpointSlices, share it.
package servicepods

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

const (
	// selectorIndex is the name of the index behind [Services].
	selectorIndex = "selector"
	// portsPerSecond is for how many ports of a Service the changes of its pods
	// are collected for a second.
	portsPerSecond = 500
)

// Services finds the Services that select a pod without a look at all others of
// the namespace. All loops share one index, which the first of them adds.
type Services struct {
	indexer cache.Indexer
}

// NewServices adds the index to the informer of Services unless it is there
// already.
func NewServices(informer cache.SharedIndexInformer) Services {
	controller.AddIndex(informer, selectorIndex, selectorKeys)
	return Services{informer.GetIndexer()}
}

// SelectsPods tells whether a Service stands for pods. One without a selector does not,
// and neither does a mere name for something outside.
func SelectsPods(service *corev1.Service) bool {
	return service.Spec.Type != corev1.ServiceTypeExternalName && len(service.Spec.Selector) > 0
}

// selectorKeys returns the keys under which the index has a Service, the same ones
// whenever it is asked. None is for a Service that has no pods.
func selectorKeys(obj any) ([]string, error) {
	service := obj.(*corev1.Service)
	if !SelectsPods(service) {
		return nil, nil
	}
	first := ""
	for key := range service.Spec.Selector {
		if first == "" || key < first {
			first = key
		}
	}
	return []string{selectorKey(service.Namespace, first, service.Spec.Selector[first])}, nil
}

func selectorKey(namespace, label, value string) string {
	return namespace + "/" + label + "=" + value
}

// Selecting returns the names of the Services that select a pod, each once. It
// looks at no Service that asks for none of the pod's labels.
func (s Services) Selecting(pod *corev1.Pod) []cache.ObjectName {
	var selecting []cache.ObjectName
	for label, value := range pod.Labels {
		found, err := s.indexer.ByIndex(selectorIndex, selectorKey(pod.Namespace, label, value))
		if err != nil {
			utilruntime.HandleError(fmt.Errorf("look up the Services of pod %s/%s: %w", pod.Namespace, pod.Name, err))
			return nil
		}
		for _, obj := range found {
			service := obj.(*corev1.Service)
			if selects(service, pod) {
				selecting = append(selecting, cache.MetaObjectToName(service))
			}
		}
	}
	return selecting
}

// selects tells whether a pod has all labels that a Service asks for. A
// [k8s.io/apimachinery/pkg/labels.Selector] of a Service that asks for thousands
// would be made and sorted for each pod, in the handler that all namespaces share.
func selects(service *corev1.Service, pod *corev1.Pod) bool {
	for label, wanted := range service.Spec.Selector {
		if value, ok := pod.Labels[label]; !ok || value != wanted {
			return false
		}
	}
	return true
}

// Watch calls queue with each Service whose addresses may have changed with a
// pod: it appeared, went, or did something that an address tells. A pod whose
// labels have changed concerns the Services that selected it before, too. After
// says for how long changes are collected: at least for batchPeriod.
func (s Services) Watch(informer cache.SharedIndexInformer, batchPeriod time.Duration,
	queue func(service cache.ObjectName, after time.Duration)) cache.InformerSynced {
	changed := func(services []cache.ObjectName) {
		for _, service := range services {
			queue(service, batchPeriod+s.pause(service))
		}
	}
	return controller.Handle(informer, controller.Handlers[*corev1.Pod]{
		Add:    func(pod *corev1.Pod) { changed(s.Selecting(pod)) },
		Update: func(old, pod *corev1.Pod) { changed(s.affected(old, pod)) },
		Delete: func(pod *corev1.Pod) { changed(s.Selecting(pod)) },
	})
}

// WatchNodes calls queue with each Service that has pods on a node that has come or
// gone, or is in another zone now: of a node, slices tell no more.
func (s Services) WatchNodes(nodes, pods cache.SharedIndexInformer, batchPeriod time.Duration,
	queue func(service cache.ObjectName, after time.Duration)) cache.InformerSynced {
	podsOn := controller.PodsOn(pods)
	changed := func(node *corev1.Node) {
		for _, pod := range podsOn(node.Name) {
			for _, service := range s.Selecting(pod.(*corev1.Pod)) {
				queue(service, batchPeriod+s.pause(service))
			}
		}
	}
	return controller.Handle(nodes, controller.Handlers[*corev1.Node]{
		Add: changed, Delete: changed,
		Update: func(old, node *corev1.Node) {
			if old.Labels[corev1.LabelTopologyZone] != node.Labels[corev1.LabelTopologyZone] {
				changed(node)
			}
		},
	})
}

// pause is zero but for a Service of very many ports. All of them are written
// with each change of a pod, so one of 4,000 whose pods come and go would keep
// the API server busy for everybody.
func (s Services) pause(service cache.ObjectName) time.Duration {
	obj, exists, err := s.indexer.GetByKey(service.String())
	if err != nil || !exists {
		return 0
	}
	return time.Duration(len(obj.(*corev1.Service).Spec.Ports)/portsPerSecond) * time.Second
}

// affected returns the Services for which an update of a pod makes a difference,
// each once.
func (s Services) affected(old, pod *corev1.Pod) []cache.ObjectName {
	before, now := sets.New(s.Selecting(old)...), sets.New(s.Selecting(pod)...)
	if !sameAddress(old, pod) {
		return before.Union(now).UnsortedList()
	}
	return before.SymmetricDifference(now).UnsortedList()
}
