package nodelifecycle

import (
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// watchLeases notes when a node is heard. That wakes nobody: there are two hundred a second in a
// cluster of two thousand nodes, and none changes anything.
func (c *Controller) watchLeases(informer cache.SharedIndexInformer) {
	told := func(lease *coordinationv1.Lease, renewed bool) {
		if renewed && lease.Namespace == corev1.NamespaceNodeLease {
			c.heard.Store(lease.Name, time.Now())
		}
		c.lease.note(lease.ResourceVersion) // last: lookTwice waits for it, and then isSilent reads what was heard
	}
	c.synced = append(c.synced, controller.Handle(informer, controller.Handlers[*coordinationv1.Lease]{
		Add: func(lease *coordinationv1.Lease) { told(lease, true) },
		Update: func(old, lease *coordinationv1.Lease) {
			// Also a time that goes back: the node may have set its clock (https://issues.k8s.io/113081).
			told(lease, !old.Spec.RenewTime.Equal(lease.Spec.RenewTime))
		},
		Delete: func(lease *coordinationv1.Lease) {
			if node, _ := c.nodes.Get(lease.Name); node == nil && lease.Namespace == corev1.NamespaceNodeLease {
				c.heard.Delete(lease.Name) // a kubelet may renew its Lease when its node is gone
			}
		},
	}))
}

// watchNodes notes when a node is heard, counts it in its zone, and has it looked at when anything of
// it changes that counts. One that falls silent, or is heard again, has its pods looked at.
func (c *Controller) watchNodes(informer cache.SharedIndexInformer, podsOn func(node string) []any) {
	changed := func(node *corev1.Node) {
		c.loop.Add(cache.MetaObjectToName(node))
		c.wake(c.zones.put(node, time.Now()))
	}
	wakePods := func(node *corev1.Node) {
		for _, pod := range podsOn(node.Name) {
			c.podLoop.Add(cache.MetaObjectToName(pod.(*corev1.Pod)))
		}
	}
	c.synced = append(c.synced, controller.Handle(informer, controller.Handlers[*corev1.Node]{
		Add: func(node *corev1.Node) {
			if lastHeartbeat(node) != nil {
				c.heard.Store(node.Name, time.Now())
			} else {
				c.heard.LoadOrStore(node.Name, node.CreationTimestamp.Time)
			}
			changed(node)
			wakePods(node)
			c.tell(node, "RegisteredNode", "Node %[1]s event: Registered Node %[1]s in Controller", node.Name)
		},
		Update: func(old, node *corev1.Node) {
			if !lastHeartbeat(old).Equal(lastHeartbeat(node)) {
				c.heard.Store(node.Name, time.Now())
			}
			if differ(old, node) {
				changed(node)
			}
			if isUnknown(old) != isUnknown(node) {
				wakePods(node)
			}
		},
		Delete: func(node *corev1.Node) {
			c.heard.Delete(node.Name)
			c.wake(c.zones.remove(node.Name, time.Now()))
			c.tell(node, "RemovingNode", "Node %[1]s event: Removing Node %[1]s from Controller", node.Name)
		},
		MustNotPanic: true, // or a node would count twice from then on
	}))
}

func (c *Controller) wake(nodes []string) {
	for _, name := range nodes {
		c.loop.Add(cache.ObjectName{Name: name})
	}
}

// lastHeartbeat returns when the kubelet has said last how the node is, by the node's clock, or nil if
// it has not yet.
func lastHeartbeat(node *corev1.Node) *metav1.Time {
	if _, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); ready != nil {
		return &ready.LastHeartbeatTime
	}
	return nil
}

// isUnknown tells whether the condition Ready of a node says already that nobody knows how it is.
func isUnknown(node *corev1.Node) bool {
	return statusOf(node, corev1.NodeReady) == corev1.ConditionUnknown
}

// differ tells whether two states of a node may lead to other decisions. That a kubelet says the same
// again, as it does every five minutes, does not.
func differ(a, b *corev1.Node) bool {
	return !slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, func(a, b corev1.NodeCondition) bool {
		return a.Type == b.Type && a.Status == b.Status
	}) || !equality.Semantic.DeepEqual(a.Spec, b.Spec) || !maps.Equal(a.Labels, b.Labels)
}

// watchPods has a pod looked at that comes to a silent node, or is ready there, and one that is gone
// forgotten. Where the cache shows later that the node is silent, the node wakes it.
func (c *Controller) watchPods(informer cache.SharedIndexInformer) {
	wake := func(pod *corev1.Pod) {
		if mayBeReady(pod) != nil && c.isOnSilentNode(pod) {
			c.podLoop.Add(cache.MetaObjectToName(pod))
		}
	}
	c.synced = append(c.synced, controller.Handle(informer, controller.Handlers[*corev1.Pod]{
		Add:    wake,
		Update: func(_, pod *corev1.Pod) { wake(pod) },
		Delete: func(pod *corev1.Pod) { c.podLoop.Add(cache.MetaObjectToName(pod)) },
	}))
}
