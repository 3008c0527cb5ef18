package resourcequota

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// addPod charges a pod for what its containers may need at the same time, unless
// it is over. It returns when a pod that is being deleted will be.
func (c *charge) addPod(pod *corev1.Pod, now time.Time) (until time.Time) {
	c.scopes = podScopes(pod)
	until = overdue(pod)
	if isOver(pod, now) {
		return time.Time{}
	}
	c.used[corev1.ResourcePods] = number(1)
	// As the API server does it: what was asked for in a resize counts, and what
	// the node still gives.
	options := resourcehelper.PodResourcesOptions{UseStatusResources: true}
	for name, quantity := range resourcehelper.PodRequests(pod, options) {
		c.addRequest(name, quantity)
	}
	for name, quantity := range resourcehelper.PodLimits(pod, options) {
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			c.used["limits."+name] = quantity
		}
	}
	return until
}

// addRequest charges a pod for a request, under each name that it has.
func (c *charge) addRequest(name corev1.ResourceName, quantity resource.Quantity) {
	switch {
	case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage,
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		c.used[name] = quantity
		c.used[requestsPrefix+name] = quantity
	case isExtended(name):
		c.used[requestsPrefix+name] = quantity
	}
}

// isOver tells whether a pod uses nothing any more: it has ended, or nobody has
// confirmed in time that it has.
func isOver(pod *corev1.Pod, now time.Time) bool {
	at := overdue(pod)
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || !at.IsZero() && now.After(at)
}

// overdue is when a pod that is being deleted is no longer charged, whether it has
// ended or not: a grace period after the time by which it was to be gone, which
// is one grace period after its deletion was asked for. It is the zero time for
// one that is not being deleted.
func overdue(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return time.Time{}
	}
	return pod.DeletionTimestamp.Add(controller.Seconds(*pod.DeletionGracePeriodSeconds))
}

func podScopes(pod *corev1.Pod) scopes {
	in := scopes{corev1.ResourceQuotaScopePriorityClass: nil}
	if class := pod.Spec.PriorityClassName; class != "" {
		in[corev1.ResourceQuotaScopePriorityClass] = []string{class}
	}
	in.either(ptr.Deref(pod.Spec.ActiveDeadlineSeconds, -1) >= 0,
		corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating)
	in.either(isBestEffort(pod),
		corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort)
	if reachesOut(pod.Spec.Affinity) {
		in[corev1.ResourceQuotaScopeCrossNamespacePodAffinity] = present
	}
	return in
}

// isBestEffort goes by what the API server has written down when it stored the
// pod. Only pods from before that have to be looked at.
func isBestEffort(pod *corev1.Pod) bool {
	if class := pod.Status.QOSClass; class != "" {
		return class == corev1.PodQOSBestEffort
	}
	var all []corev1.ResourceRequirements
	if pod.Spec.Resources != nil {
		all = append(all, *pod.Spec.Resources)
	} else {
		for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			all = append(all, c.Resources)
		}
	}
	return !slices.ContainsFunc(all, func(r corev1.ResourceRequirements) bool {
		return r.Requests.Cpu().Sign() > 0 || r.Requests.Memory().Sign() > 0 || r.Limits.Cpu().Sign() > 0 || r.Limits.Memory().Sign() > 0
	})
}

// reachesOut tells whether a pod wants to be near pods of other namespaces, or
// away from them.
func reachesOut(affinity *corev1.Affinity) bool {
	var terms []corev1.PodAffinityTerm
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		terms = append(terms, required...)
		for _, weighted := range preferred {
			terms = append(terms, weighted.PodAffinityTerm)
		}
	}
	if affinity != nil && affinity.PodAffinity != nil {
		add(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if affinity != nil && affinity.PodAntiAffinity != nil {
		add(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}

// podCharge keeps what a pod is charged by, in a form that gives the same charge:
// what all containers request and may use is that of one more.
var podCharge = controller.KeepOf(func(kept, whole *corev1.Pod) {
	options := resourcehelper.PodResourcesOptions{UseStatusResources: true, ExcludeOverhead: true}
	kept.Spec.PriorityClassName = whole.Spec.PriorityClassName
	kept.Spec.ActiveDeadlineSeconds = whole.Spec.ActiveDeadlineSeconds
	kept.Spec.Overhead = whole.Spec.Overhead
	kept.Status.QOSClass = whole.Status.QOSClass
	all := corev1.ResourceRequirements{Requests: resourcehelper.PodRequests(whole, options), Limits: resourcehelper.PodLimits(whole, options)}
	if len(all.Requests) > 0 || len(all.Limits) > 0 {
		kept.Spec.Containers = append(kept.Spec.Containers, corev1.Container{Resources: all})
	}
	if reachesOut(whole.Spec.Affinity) {
		kept.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{NamespaceSelector: &metav1.LabelSelector{}},
		}}}
	}
})
