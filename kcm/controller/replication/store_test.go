package replication

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func TestAReplicationControllerSurvivesTheWayThereAndBack(t *testing.T) {
	t.Parallel()
	rc := &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "1", ResourceVersion: "7", Annotations: map[string]string{"a": "b"}},
		Spec: corev1.ReplicationControllerSpec{
			Replicas: ptr.To[int32](3), MinReadySeconds: 4,
			Selector: map[string]string{"app": "web"},
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}},
		},
		Status: corev1.ReplicationControllerStatus{
			Replicas: 1, FullyLabeledReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 4, ObservedGeneration: 5,
			Conditions: []corev1.ReplicationControllerCondition{{
				Type: corev1.ReplicationControllerReplicaFailure, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(testNow), Reason: "FailedCreate", Message: "m",
			}},
		},
	}
	assert.Equal(t, rc, toReplicationController(toReplicaSet(rc)))
}

func TestAnUnsetSelectorSelectsNothing(t *testing.T) {
	t.Parallel()
	selector, err := metav1.LabelSelectorAsSelector(toReplicaSet(&corev1.ReplicationController{}).Spec.Selector)
	require.NoError(t, err)
	assert.Equal(t, "", selector.String())
	_, selectable := selector.Requirements()
	assert.False(t, selectable)
}

func TestEventsOnAReplicationControllerNameTheReplicationController(t *testing.T) {
	t.Parallel()
	set := toReplicaSet(&corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "1"}})
	ref, err := reference.GetReference(scheme.Scheme, set)
	require.NoError(t, err)
	assert.Equal(t, &corev1.ObjectReference{APIVersion: "v1", Kind: "ReplicationController", Namespace: "ns", Name: "web", UID: "1"}, ref)
}

func TestSiblingsOfAReplicationControllerHaveItsOwner(t *testing.T) {
	t.Parallel()
	informer := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().ReplicationControllers().Informer()
	sets := replicationControllers{index: controller.NewOwnerIndex[*corev1.ReplicationController](informer)}
	add := func(name string, refs ...metav1.OwnerReference) *appsv1.ReplicaSet {
		rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: refs}}
		require.NoError(t, informer.GetStore().Add(rc))
		return toReplicaSet(rc)
	}
	web := metav1.OwnerReference{Kind: "DeploymentConfig", UID: "web", Controller: ptr.To(true)}
	one, two, orphan := add("web-1", web), add("web-2", web), add("orphan")
	add("shop-1", metav1.OwnerReference{Kind: "DeploymentConfig", UID: "shop", Controller: ptr.To(true)})
	siblings, err := sets.siblings(one)
	require.NoError(t, err)
	assert.ElementsMatch(t, []*appsv1.ReplicaSet{one, two}, siblings)
	siblings, err = sets.siblings(orphan)
	require.NoError(t, err)
	assert.Empty(t, siblings)
}
