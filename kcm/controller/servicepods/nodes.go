package servicepods

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// nodeIndex is the name of the index of the pods that are reachable, by their node.
const nodeIndex = "node"

func nodeKeys(obj any) ([]string, error) {
	pod := obj.(*corev1.Pod)
	if pod.Spec.NodeName == "" || !IsReachable(pod) {
		return nil, nil
	}
	return []string{pod.Spec.NodeName}, nil
}

// WatchNodes calls queue with each Service that has pods on a node that has come or
// gone, or is in another zone now: of a node, slices tell no more. It looks at no
// Service that has no pod there.
func (s Services) WatchNodes(nodes, pods cache.SharedIndexInformer, batchPeriod time.Duration,
	queue func(service cache.ObjectName, after time.Duration)) cache.InformerSynced {
	controller.AddIndex(pods, nodeIndex, nodeKeys)
	changed := func(node *corev1.Node) {
		there, err := pods.GetIndexer().ByIndex(nodeIndex, node.Name)
		if err != nil {
			utilruntime.HandleError(fmt.Errorf("look up the pods of node %s: %w", node.Name, err))
		}
		for _, pod := range there {
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
