package replication

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// store is where sets of one kind are read and their status is written.
type store interface {
	// get, list and siblings read the cache. What they return must not be changed.
	get(key cache.ObjectName) (*appsv1.ReplicaSet, error)
	list(namespace string) ([]*appsv1.ReplicaSet, error)
	// siblings are the sets of the same owner, this one included, if it has one.
	siblings(set *appsv1.ReplicaSet) ([]*appsv1.ReplicaSet, error)
	// getFresh reads the API server.
	getFresh(ctx context.Context, key cache.ObjectName) (*appsv1.ReplicaSet, error)
	// updateStatus writes the status of the set, unless the set has changed
	// since it was read.
	updateStatus(ctx context.Context, set *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error)
}

// replicaSets is the store of ReplicaSets.
type replicaSets struct {
	lister appslisters.ReplicaSetLister
	index  controller.OwnerIndex[*appsv1.ReplicaSet]
	client appsclient.ReplicaSetsGetter
}

func (s replicaSets) get(key cache.ObjectName) (*appsv1.ReplicaSet, error) {
	return s.lister.ReplicaSets(key.Namespace).Get(key.Name)
}

func (s replicaSets) list(namespace string) ([]*appsv1.ReplicaSet, error) {
	return s.lister.ReplicaSets(namespace).List(labels.Everything())
}

func (s replicaSets) siblings(set *appsv1.ReplicaSet) ([]*appsv1.ReplicaSet, error) {
	return s.index.Siblings(set)
}

func (s replicaSets) getFresh(ctx context.Context, key cache.ObjectName) (*appsv1.ReplicaSet, error) {
	return s.client.ReplicaSets(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
}

func (s replicaSets) updateStatus(ctx context.Context, set *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	return s.client.ReplicaSets(set.Namespace).UpdateStatus(ctx, set, metav1.UpdateOptions{})
}

// replicationControllers is the store of ReplicationControllers.
type replicationControllers struct {
	lister corelisters.ReplicationControllerLister
	index  controller.OwnerIndex[*corev1.ReplicationController]
	client coreclient.ReplicationControllersGetter
}

func (s replicationControllers) get(key cache.ObjectName) (*appsv1.ReplicaSet, error) {
	return asReplicaSet(s.lister.ReplicationControllers(key.Namespace).Get(key.Name))
}

func (s replicationControllers) list(namespace string) ([]*appsv1.ReplicaSet, error) {
	return asReplicaSets(s.lister.ReplicationControllers(namespace).List(labels.Everything()))
}

func (s replicationControllers) siblings(set *appsv1.ReplicaSet) ([]*appsv1.ReplicaSet, error) {
	return asReplicaSets(s.index.Siblings(set))
}

func (s replicationControllers) getFresh(ctx context.Context, key cache.ObjectName) (*appsv1.ReplicaSet, error) {
	return asReplicaSet(s.client.ReplicationControllers(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{}))
}

func (s replicationControllers) updateStatus(ctx context.Context, set *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	rc := toReplicationController(set)
	return asReplicaSet(s.client.ReplicationControllers(set.Namespace).UpdateStatus(ctx, rc, metav1.UpdateOptions{}))
}

// asReplicaSet converts what a read of a ReplicationController returned.
func asReplicaSet(rc *corev1.ReplicationController, err error) (*appsv1.ReplicaSet, error) {
	if err != nil {
		return nil, err
	}
	return toReplicaSet(rc), nil
}

// asReplicaSets converts what a read of several returned.
func asReplicaSets(rcs []*corev1.ReplicationController, err error) ([]*appsv1.ReplicaSet, error) {
	sets := make([]*appsv1.ReplicaSet, 0, len(rcs))
	for _, rc := range rcs {
		sets = append(sets, toReplicaSet(rc))
	}
	return sets, err
}

// toReplicaSet gives a ReplicationController the shape of a ReplicaSet. It
// stays a ReplicationController by its type, which is what events on it and
// references to it name. The two share memory.
func toReplicaSet(rc *corev1.ReplicationController) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ReplicationController"},
		ObjectMeta: rc.ObjectMeta,
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        rc.Spec.Replicas,
			MinReadySeconds: rc.Spec.MinReadySeconds,
		},
		Status: appsv1.ReplicaSetStatus{
			Replicas:             rc.Status.Replicas,
			FullyLabeledReplicas: rc.Status.FullyLabeledReplicas,
			ReadyReplicas:        rc.Status.ReadyReplicas,
			AvailableReplicas:    rc.Status.AvailableReplicas,
			ObservedGeneration:   rc.Status.ObservedGeneration,
		},
	}
	if rc.Spec.Selector != nil {
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: rc.Spec.Selector}
	}
	if rc.Spec.Template != nil {
		set.Spec.Template = *rc.Spec.Template
	}
	for _, c := range rc.Status.Conditions {
		set.Status.Conditions = append(set.Status.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return set
}

// toReplicationController is the way back.
func toReplicationController(set *appsv1.ReplicaSet) *corev1.ReplicationController {
	rc := &corev1.ReplicationController{
		ObjectMeta: set.ObjectMeta,
		Spec: corev1.ReplicationControllerSpec{
			Replicas:        set.Spec.Replicas,
			MinReadySeconds: set.Spec.MinReadySeconds,
			Template:        &set.Spec.Template,
		},
		Status: corev1.ReplicationControllerStatus{
			Replicas:             set.Status.Replicas,
			FullyLabeledReplicas: set.Status.FullyLabeledReplicas,
			ReadyReplicas:        set.Status.ReadyReplicas,
			AvailableReplicas:    set.Status.AvailableReplicas,
			ObservedGeneration:   set.Status.ObservedGeneration,
		},
	}
	if set.Spec.Selector != nil {
		rc.Spec.Selector = set.Spec.Selector.MatchLabels
	}
	for _, c := range set.Status.Conditions {
		rc.Status.Conditions = append(rc.Status.Conditions, corev1.ReplicationControllerCondition{
			Type: corev1.ReplicationControllerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return rc
}
