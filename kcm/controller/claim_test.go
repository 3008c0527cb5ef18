package controller

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	adoptPatch = `{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"owner","controller":true,"blockOwnerDeletion":true}],"uid":"pod"}}`
	letGoPatch = `{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"owner"}],"uid":"pod"}}`
)

// claimable is a pod with the labels of the set, or without, and with the
// controller of that UID, if any.
func claimable(matches bool, controller types.UID) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "pod"}}
	if matches {
		pod.Labels = map[string]string{"app": "web"}
	}
	if controller != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{UID: controller, Controller: ptr.To(true)}}
	}
	return pod
}

func beingDeleted[T metav1.Object](obj T) T {
	obj.SetDeletionTimestamp(ptr.To(metav1.Now()))
	return obj
}

func TestClaim(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "pod", nil)
	tests := map[string]struct {
		pod      *corev1.Pod
		owner    *appsv1.ReplicaSet
		canAdopt error
		answer   error

		claimed bool
		patch   string
		err     string
	}{
		"an owned pod that matches stays": {
			pod: claimable(true, "owner"), claimed: true,
		},
		"a pod of another owner is left alone": {
			pod: claimable(true, "other"),
		},
		"an orphan that does not match is left alone": {
			pod: claimable(false, ""),
		},
		"an orphan that matches is adopted": {
			pod: claimable(true, ""), claimed: true, patch: adoptPatch,
		},
		"an orphan that is being deleted is not adopted": {
			pod: beingDeleted(claimable(true, "")),
		},
		"an owner that is being deleted does not adopt": {
			pod: claimable(true, ""), owner: beingDeleted(&appsv1.ReplicaSet{}),
		},
		"an owner that the API server knows to be deleted does not adopt": {
			pod: claimable(true, ""), canAdopt: errors.New("has been deleted"),
			err: "adopt ns/pod: has been deleted",
		},
		"an orphan that went before it was adopted is no failure": {
			pod: claimable(true, ""), answer: apierrors.NewNotFound(pods, "pod"), patch: adoptPatch,
		},
		"an orphan that another adopted first is tried again": {
			pod: claimable(true, ""), answer: invalid, patch: adoptPatch,
			err: "adopt ns/pod: " + invalid.Error(),
		},
		"an owned pod that no longer matches is released": {
			pod: claimable(false, "owner"), patch: letGoPatch,
		},
		"an owner that is being deleted does not release": {
			pod: claimable(false, "owner"), owner: beingDeleted(&appsv1.ReplicaSet{}),
		},
		"a pod that went before it was released is no failure": {
			pod: claimable(false, "owner"), answer: apierrors.NewNotFound(pods, "pod"), patch: letGoPatch,
		},
		"a pod that was replaced before it was released is no failure": {
			pod: claimable(false, "owner"), answer: invalid, patch: letGoPatch,
		},
		"a release that fails is tried again": {
			pod: claimable(false, "owner"), answer: errors.New("timeout"), patch: letGoPatch,
			err: "release ns/pod: timeout",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := &appsv1.ReplicaSet{}
			if tt.owner != nil {
				owner = tt.owner
			}
			owner.Namespace, owner.Name, owner.UID = "ns", "web", "owner"
			var patch string
			claimer := Claimer[*corev1.Pod]{
				Owner:    owner,
				Kind:     appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
				Selector: labels.SelectorFromSet(labels.Set{"app": "web"}),
				CanAdopt: func(context.Context) error { return tt.canAdopt },
				Patch: func(_ context.Context, _ *corev1.Pod, sent []byte) error {
					patch = string(sent)
					return tt.answer
				},
			}
			claimed, err := claimer.Claim(context.Background(), []*corev1.Pod{tt.pod})
			if tt.err != "" {
				assert.EqualError(t, err, tt.err)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, tt.claimed, len(claimed) == 1)
			assert.Equal(t, tt.patch, patch)
		})
	}
}

func TestClaimAsksOnceWhetherItMayAdoptAndNotWithoutNeed(t *testing.T) {
	t.Parallel()
	asked := 0
	claimer := Claimer[*corev1.Pod]{
		Owner:    &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{UID: "owner"}},
		Selector: labels.SelectorFromSet(labels.Set{"app": "web"}),
		CanAdopt: func(context.Context) error { asked++; return nil },
		Patch:    func(context.Context, *corev1.Pod, []byte) error { return nil },
	}
	_, err := claimer.Claim(context.Background(), []*corev1.Pod{claimable(true, "owner"), claimable(false, "")})
	require.NoError(t, err)
	assert.Zero(t, asked)

	claimed, err := claimer.Claim(context.Background(), []*corev1.Pod{claimable(true, ""), claimable(true, "")})
	require.NoError(t, err)
	assert.Len(t, claimed, 2)
	assert.Equal(t, 1, asked)
}

func TestClaimReturnsTheRestWhenSomePatchesFail(t *testing.T) {
	t.Parallel()
	claimer := Claimer[*corev1.Pod]{
		Owner:    &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{UID: "owner"}},
		Selector: labels.SelectorFromSet(labels.Set{"app": "web"}),
		CanAdopt: func(context.Context) error { return nil },
		Patch:    func(context.Context, *corev1.Pod, []byte) error { return errors.New("timeout") },
	}
	mine := claimable(true, "owner")
	claimed, err := claimer.Claim(context.Background(), []*corev1.Pod{claimable(true, ""), mine, claimable(false, "owner")})
	assert.Equal(t, []*corev1.Pod{mine}, claimed)
	assert.ErrorContains(t, err, "adopt ns/pod: timeout")
	assert.ErrorContains(t, err, "release ns/pod: timeout")
}

func TestCanAdoptLooksAtTheOwnerThatIsThereNow(t *testing.T) {
	t.Parallel()
	cached := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "1"}}
	tests := map[string]struct {
		fresh   *appsv1.ReplicaSet
		readErr error
		err     string
	}{
		"the same":                 {fresh: cached},
		"another of the same name": {fresh: &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{UID: "2"}}, err: "uid 2, not 1"},
		"being deleted":            {fresh: beingDeleted(cached.DeepCopy()), err: "ns/web has been deleted"},
		"unreadable":               {readErr: errors.New("timeout"), err: "read ns/web anew: timeout"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CanAdopt(cached, func(context.Context) (*appsv1.ReplicaSet, error) { return tt.fresh, tt.readErr })(context.Background())
			if tt.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tt.err)
			}
		})
	}
}
