package daemon

import (
	"cmp"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

const (
	// hashLabel is on pods and revisions, and tells which belong together.
	hashLabel = appsv1.DefaultDaemonSetUniqueLabelKey
	// generationLabel on a pod has the number that the API server keeps in an
	// annotation of the DaemonSet, and counts up with each change of the
	// template. It is older than revisions.
	generationLabel = "pod-template-generation"
)

// newPod returns the pod for a node: the template's, with the tolerations of a
// DaemonSet, labels that say which revision it is of, and an affinity to this
// node alone in place of the template's, which has been asked already. The
// scheduler does the rest.
func newPod(set *appsv1.DaemonSet, hash, node string) *corev1.Pod {
	pod := controller.PodFromTemplate(&set.Spec.Template, set, kind)
	pod.Spec.Tolerations = daemonTolerations(pod.Spec)
	pod.Labels = controller.With(pod.Labels, hashLabel, hash)
	if generation, ok := templateGeneration(set); ok {
		pod.Labels = controller.With(pod.Labels, generationLabel, generation)
	}
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			}},
		}},
	}
	return pod
}

// templateGeneration returns the number of the template, as a label has it.
func templateGeneration(set *appsv1.DaemonSet) (string, bool) {
	number, err := strconv.ParseInt(set.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	return strconv.FormatInt(number, 10), err == nil
}

// podPlace keeps of a pod that is not bound yet the node that it is meant for.
var podPlace = controller.KeepOf(func(kept, whole *corev1.Pod) {
	if whole.Spec.NodeName != "" || whole.Spec.Affinity == nil || whole.Spec.Affinity.NodeAffinity == nil {
		return
	}
	if kept.Spec.Affinity == nil {
		kept.Spec.Affinity = &corev1.Affinity{}
	}
	kept.Spec.Affinity.NodeAffinity = whole.Spec.Affinity.NodeAffinity
})

// nodeOf returns the name of the node that a pod is on or is meant for, or
// nothing if it says neither, as one that was adopted may.
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil {
		return ""
	}
	required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return ""
	}
	for _, term := range required.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// byAge sorts the pods of a node: those that have been bound to it first, then
// the oldest first.
func byAge(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(min(len(b.Spec.NodeName), 1), min(len(a.Spec.NodeName), 1)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}
