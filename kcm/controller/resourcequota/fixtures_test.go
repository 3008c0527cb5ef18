package resourcequota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func init() {
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

// list reads a list of quantities as [written] writes it: "cpu=1 pods=2".
func list(words string) corev1.ResourceList {
	all := corev1.ResourceList{}
	for _, word := range strings.Fields(words) {
		name, quantity, _ := strings.Cut(word, "=")
		all[corev1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return all
}

// written writes a list of quantities in words.
func written(all corev1.ResourceList) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		quantity := all[name]
		words = append(words, fmt.Sprintf("%s=%s", name, quantity.String()))
	}
	return cmp.Or(strings.Join(words, " "), "nothing")
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "here", Name: name} }

// pod returns a pod whose containers request and are limited to so much each.
func pod(name string, containers ...corev1.ResourceRequirements) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta(name), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for i, resources := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Resources: resources})
	}
	return p
}

func asks(requests, limits string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}

func with[T any](object T, changes ...func(T)) T {
	for _, change := range changes {
		change(object)
	}
	return object
}

// quota returns a quota with limits, as "pods=1 cpu=2".
func quota(name, hard string, scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: meta(name), Spec: corev1.ResourceQuotaSpec{Hard: list(hard), Scopes: scopes}}
}

// countedQuota returns a quota whose status says what is used of the limits.
func countedQuota(name, hard, used string, scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
	q := quota(name, hard, scopes...)
	q.Status = corev1.ResourceQuotaStatus{Hard: list(hard), Used: list(used)}
	return q
}
