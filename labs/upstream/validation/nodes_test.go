package validation

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller/nodeipam"
	"github.com/kcm-book/kcm-book/kcm/controller/nodelifecycle"
	"github.com/kcm-book/kcm-book/kcm/controller/podgc"
	"github.com/kcm-book/kcm-book/kcm/controller/tainteviction"
	"github.com/kcm-book/kcm-book/kcm/controller/ttl"
)

// loopsOfNodes are those that write nodes, and pods for what is the matter with their nodes. There are ranges for two
// nodes, and two pods that have ended may stay.
func (c *cluster) loopsOfNodes(ctx context.Context, factory informers.SharedInformerFactory) []loop {
	core := factory.Core().V1()
	pods, nodes := core.Pods(), core.Nodes()
	lifecycle := done(nodelifecycle.NewNodeLifecycleController(ctx, factory.Coordination().V1().Leases(), pods, nodes,
		factory.Apps().V1().DaemonSets(), c, 5*time.Second, 30*time.Second, 20*time.Second, 1, 1, 50, .55))
	lifecycle.Confirm(c.CoordinationV1().Leases(corev1.NamespaceNodeLease))
	return []loop{
		lifecycle,
		done(tainteviction.New(ctx, c, pods, nodes, "taint-eviction-controller")),
		nodeipam.New(ctx, nodes, c, nodeipam.Ranges{Pools: []nodeipam.Pool{
			{Cluster: netip.MustParsePrefix("10.9.0.0/27"), Bits: 28}, {Cluster: netip.MustParsePrefix("fd09::/63"), Bits: 64}}}),
		ttl.NewTTLController(ctx, nodes, c),
		podgc.New(c, pods, nodes, 2),
	}
}

func nodeName(r *rand.Rand) string { return fmt.Sprint("node-", r.IntN(3)) }

// moment draws a time that is not far from the beginning of a run, or far.
func moment(r *rand.Rand) metav1.Time {
	return pick(r, metav1.Time{}, metav1.Unix(0, 0), metav1.Unix(946684800+r.Int64N(600), 0), metav1.Unix(1<<32, 0))
}

// someNode draws a node that a kubelet, or somebody else, makes or writes.
func someNode(r *rand.Rand) deed {
	node := &corev1.Node{ObjectMeta: named(r, nodeName(r))}
	node.Namespace, node.Finalizers = "", pick(r, nil, nil, nil, []string{"example.com/held"})
	node.Annotations[corev1.ObjectTTLAnnotationKey] = pick(r, "", "0", "15", "soon")
	node.Spec.Taints, node.Spec.Unschedulable = several(r, 4, oneTaint(r)), r.IntN(4) == 0
	node.Status.Conditions = several(r, 6, oneCondition(r))
	node.Spec.PodCIDRs = pick(r, nil, nil, nil, []string{"10.9.0.0/28"}, []string{"10.9.0.16/28", "fd09::/64"},
		[]string{"fd09::/63"}, []string{"192.168.7.0/24"}, []string{"10.9.0.0/27", "fd09::/64"})
	if len(node.Spec.PodCIDRs) > 0 {
		node.Spec.PodCIDR = node.Spec.PodCIDRs[0]
	}
	return put(node)
}

// oneTaint draws taints. They may be those that loops put on.
func oneTaint(r *rand.Rand) func() corev1.Taint {
	return func() corev1.Taint {
		at := moment(r)
		return corev1.Taint{Value: pick(r, "", "", "x"), TimeAdded: pick(r, nil, &at),
			Effect: pick(r, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule),
			Key: pick(r, "out", corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeMemoryPressure,
				corev1.TaintNodeUnschedulable, corev1.TaintNodeOutOfService)}
	}
}

// oneCondition draws conditions, of which a node may have several of a type.
func oneCondition(r *rand.Rand) func() corev1.NodeCondition {
	return func() corev1.NodeCondition {
		return corev1.NodeCondition{LastHeartbeatTime: moment(r), LastTransitionTime: moment(r),
			Reason: pick(r, "", "KubeletReady"), Status: pick[corev1.ConditionStatus](r, "True", "True", "False", "Unknown", "", "odd"),
			Type: pick[corev1.NodeConditionType](r, "Ready", "Ready", "MemoryPressure", "DiskPressure", "PIDPressure",
				"NetworkUnavailable", "", "example.com/odd")}
	}
}

// editNode is what users and kubelets do to a node. It may also go.
func editNode(r *rand.Rand) deed {
	what, n := pick(r, "taint", "conditions", "conditions", "cordon", "label", "annotate", "hold", "release", "go"), r.IntN(6)
	taints, conditions := several(r, 4, oneTaint(r)), several(r, 6, oneCondition(r))
	label := pick(r, corev1.LabelTopologyZone, "node.kubernetes.io/exclude-disruption")
	return deed{fmt.Sprintf("%s node %d: %v, %v, %s", what, n, taints, conditions, label), func(c *cluster) {
		all, subresource := c.list(&corev1.Node{}), ""
		if len(all) == 0 {
			return
		}
		node := all[n%len(all)].(*corev1.Node)
		switch what {
		case "taint":
			node.Spec.Taints = taints
		case "conditions":
			subresource, node.Status.Conditions = "status", conditions
		case "cordon":
			node.Spec.Unschedulable = !node.Spec.Unschedulable
		case "label":
			node.Labels = map[string]string{label: fmt.Sprint(n % 3)}
		case "annotate":
			node.Annotations = map[string]string{corev1.ObjectTTLAnnotationKey: fmt.Sprint(n)}
		case "hold":
			node.Finalizers = []string{"example.com/held"}
		case "release":
			node.Finalizers = nil
		case "go":
			c.remove(resourceOf(node), "", node.Name, metav1.DeleteOptions{})
			return
		}
		c.write(subresource, node)
	}}
}

// beat has a kubelet renew its Lease, by a clock that may be wrong. The Lease may also go.
func beat(r *rand.Rand) deed {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: nodeName(r)}}
	wrong := pick(r, 0, 0, 0, time.Hour, -time.Hour)
	renew := deed{fmt.Sprintf("the kubelet of %s renews its Lease, and is wrong by %v", lease.Name, wrong), func(c *cluster) {
		lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(wrong)))
		put(lease).do(c)
	}}
	goes := deed{"the Lease of " + lease.Name + " goes", func(c *cluster) {
		c.remove(resourceOf(lease), lease.Namespace, lease.Name, metav1.DeleteOptions{})
	}}
	return pick(r, renew, renew, renew, renew, goes)
}

// boundPod draws a pod that is on a node, which may be none, and bears taints.
func boundPod(r *rand.Rand) deed {
	pod := &corev1.Pod{ObjectMeta: named(r, fmt.Sprint("bound-", r.IntN(5))), Spec: template("web", "web:v1").Spec}
	pod.Spec.NodeName, pod.Finalizers = pick(r, "", "node-9", nodeName(r), nodeName(r)), pick(r, nil, nil, []string{"example.com/held"})
	pod.Spec.Tolerations = several(r, 3, func() corev1.Toleration {
		return corev1.Toleration{Key: pick(r, "out", corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable),
			Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: orNil[int64](r, -1, 0, 5, 60, 1<<62)}
	})
	return put(pod)
}

// changePatch changes what the loops send as a patch.
func changePatch(resource, old, now string) func(client *fake.Clientset) {
	return func(client *fake.Clientset) {
		answer := client.ReactionChain[0]
		client.PrependReactor("patch", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
			patch := action.(clienttesting.PatchActionImpl)
			patch.Patch = bytes.ReplaceAll(patch.Patch, []byte(old), []byte(now))
			return answer.React(patch)
		})
	}
}
