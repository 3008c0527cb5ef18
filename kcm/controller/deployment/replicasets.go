package deployment

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// hashLabel tells the pods of the versions of a deployment apart.
const hashLabel = appsv1.DefaultDeploymentUniqueLabelKey

// tellApart finds the ReplicaSet that has the deployment's template and
// returns the others from the oldest to the youngest. When several have it,
// which takes a change of the pod type in the API, the oldest is the new one
// (https://github.com/kubernetes/kubernetes/issues/40415).
func tellApart(d *appsv1.Deployment, replicaSets []*appsv1.ReplicaSet) (
	newRS *appsv1.ReplicaSet, oldRSs []*appsv1.ReplicaSet,
) {
	for _, rs := range slices.SortedFunc(slices.Values(replicaSets), byAge) {
		if newRS == nil && sameTemplate(d.Spec.Template, rs.Spec.Template) {
			newRS = rs
			continue
		}
		oldRSs = append(oldRSs, rs)
	}
	return newRS, oldRSs
}

// byAge orders ReplicaSets from the oldest to the youngest. Creation times are
// in whole seconds, so the name decides in between.
func byAge(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Name, b.Name),
	)
}

// sameTemplate compares what users can write. The hash label is left out,
// because the deployment's template has none.
func sameTemplate(a, b corev1.PodTemplateSpec) bool {
	a.Labels, b.Labels = withoutHash(a.Labels), withoutHash(b.Labels)
	return equality.Semantic.DeepEqual(a, b)
}

func withoutHash(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	delete(labels, hashLabel)
	return labels
}

// active returns the ReplicaSets that are to have pods.
func active(replicaSets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	return slices.DeleteFunc(slices.Clone(replicaSets), func(rs *appsv1.ReplicaSet) bool { return size(rs) == 0 })
}

// size is how many pods a ReplicaSet is to have.
func size(rs *appsv1.ReplicaSet) int32 { return *rs.Spec.Replicas }

// available is how many available pods a ReplicaSet has and is to keep. Its
// status is behind its size for a while after it was made smaller, and the
// pods that are about to go must not be counted on.
func available(rs *appsv1.ReplicaSet) int32 { return min(size(rs), rs.Status.AvailableReplicas) }

// sum adds up one number of each ReplicaSet, as far as it can be counted.
func sum(replicaSets []*appsv1.ReplicaSet, number func(*appsv1.ReplicaSet) int32) int32 {
	var total int64
	for _, rs := range replicaSets {
		total += int64(number(rs))
	}
	return int32(min(total, math.MaxInt32))
}

// newReplicaSet returns the ReplicaSet to create for the present template. Its
// name follows from the deployment and the template, so that creating it a
// second time, on the word of a cache that is behind, fails and does no harm.
func newReplicaSet(seen observed) *appsv1.ReplicaSet {
	d := seen.deployment
	template := *d.Spec.Template.DeepCopy()
	hash := controller.PodTemplateHash(template, d.Status.CollisionCount)
	template.Labels = controller.With(template.Labels, hashLabel, hash)
	selector := d.Spec.Selector.DeepCopy()
	selector.MatchLabels = controller.With(selector.MatchLabels, hashLabel, hash)

	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:            replicaSetName(d.Name, hash),
			Namespace:       d.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, kind)},
			Labels:          maps.Clone(template.Labels),
			Annotations:     annotationsOfNew(d, nil, nextRevision(seen.oldRSs)),
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        new(int32),
			MinReadySeconds: d.Spec.MinReadySeconds,
			Selector:        selector,
			Template:        template,
		},
	}
	return resized(d, rs, sizeOfNew(seen))
}

// replicaSetName cuts a name that would be longer than the API allows.
func replicaSetName(deployment, hash string) string {
	longest := validation.DNS1123SubdomainMaxLength - len("-") - len(hash)
	return deployment[:min(len(deployment), longest)] + "-" + hash
}
