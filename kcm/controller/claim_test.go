package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
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
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const (
	adoptPatch = `{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"owner","controller":true,"blockOwnerDeletion":true}],"uid":"pod"}}`
	letGoPatch = `{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"owner"}],"uid":"pod"}}`
)

// claimable is a pod with the labels of the set web, or without, and with the
// controller of that UID, if any. Those of the UIDs owner and earlier are named
// web.
func claimable(matches bool, controller types.UID) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "pod"}}
	if matches {
		pod.Labels = map[string]string{"app": "web"}
	}
	if controller != "" {
		name := map[types.UID]string{"owner": "web", "earlier": "web"}[controller]
		pod.OwnerReferences = []metav1.OwnerReference{{Name: name, UID: controller, Controller: ptr.To(true)}}
	}
	return pod
}

func beingDeleted[T metav1.Object](obj T) T {
	obj.SetDeletionTimestamp(ptr.To(metav1.Now()))
	return obj
}

// claimer returns the Claimer of the set web, whose patches are answered by
// answer.
func claimer(owner *appsv1.ReplicaSet, canAdopt func() error, answer func(patch string) error) *Claimer[*corev1.Pod] {
	owner.Namespace, owner.Name, owner.UID = "ns", "web", "owner"
	return &Claimer[*corev1.Pod]{
		Owner:    owner,
		Kind:     appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		Selector: labels.SelectorFromSet(labels.Set{"app": "web"}),
		CanAdopt: func(context.Context) error { return canAdopt() },
		Patch: func(_ context.Context, pod *corev1.Pod, patch []byte) (*corev1.Pod, error) {
			now := pod.DeepCopy()
			now.ResourceVersion = "now"
			return now, answer(string(patch))
		},
	}
}

// becomes says what became of the pods: how many are the set's, what was asked
// of the API server for them, and whether the set has to try again.
func becomes(claimed []*corev1.Pod, patches []string, err error) string {
	text := map[bool]string{true: "the set's", false: "not the set's"}[len(claimed) > 0]
	for _, patch := range patches {
		switch patch {
		case adoptPatch:
			text = "adopted: " + text
		case letGoPatch:
			text = "released: " + text
		default:
			text = "patched with " + patch + ": " + text
		}
	}
	if err != nil {
		text += "; to be tried again"
	}
	return text
}

func TestClaim(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "pod", field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), "1", "field is immutable")})
	taken := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "pod", field.ErrorList{field.Invalid(field.NewPath("metadata", "ownerReferences"), "web", "only one may be the controller")})
	denied := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "pod", nil)
	webhook := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 404, Message: `admission webhook "shop.example.com" denied the request`}}
	tests := map[string]struct {
		pod      *corev1.Pod
		owner    *appsv1.ReplicaSet
		canAdopt error
		answer   error

		want string
		err  string
	}{
		"a pod of the set that matches stays": {
			pod: claimable(true, "owner"), want: "the set's",
		},
		"a pod of the set that is going stays until it is gone": {
			pod: beingDeleted(claimable(true, "owner")), want: "the set's",
		},
		"a pod of the set stays while the set is being deleted": {
			pod: claimable(true, "owner"), owner: beingDeleted(&appsv1.ReplicaSet{}), want: "the set's",
		},
		"a pod of another owner is left alone": {
			pod: claimable(true, "other"), want: "not the set's",
		},
		"a pod of another owner that does not match is left alone": {
			pod: claimable(false, "other"), want: "not the set's",
		},
		"a pod of an earlier set of the same name is left alone": {
			pod: claimable(true, "earlier"), want: "not the set's",
		},
		"an orphan that does not match is left alone": {
			pod: claimable(false, ""), want: "not the set's",
		},
		"an orphan that matches is adopted": {
			pod: claimable(true, ""), want: "adopted: the set's",
		},
		"an orphan that is going is not adopted": {
			pod: beingDeleted(claimable(true, "")), want: "not the set's",
		},
		"a set that is being deleted does not adopt": {
			pod: claimable(true, ""), owner: beingDeleted(&appsv1.ReplicaSet{}), want: "not the set's",
		},
		"a set that only the API server knows to be deleted does not adopt": {
			pod: claimable(true, ""), canAdopt: errors.New("has been deleted"), want: "not the set's; to be tried again",
			err: "adopt ns/pod: has been deleted",
		},
		"an orphan that went before it was adopted is no failure": {
			pod: claimable(true, ""), answer: apierrors.NewNotFound(pods, "pod"), want: "adopted: not the set's",
		},
		"an orphan that was replaced before it was adopted is no failure": {
			pod: claimable(true, ""), answer: invalid, want: "adopted: not the set's",
		},
		"an orphan that another set adopted first is looked at again": {
			pod: claimable(true, ""), answer: taken, want: "adopted: not the set's; to be tried again",
			err: "adopt ns/pod: " + taken.Error(),
		},
		"an adoption that a webhook denies with 404 is tried again": {
			pod: claimable(true, ""), answer: webhook, want: "adopted: not the set's; to be tried again",
			err: "adopt ns/pod: " + webhook.Error(),
		},
		"a pod of the set that no longer matches is released": {
			pod: claimable(false, "owner"), want: "released: not the set's",
		},
		"a set that is being deleted does not release": {
			pod: claimable(false, "owner"), owner: beingDeleted(&appsv1.ReplicaSet{}), want: "not the set's",
		},
		"a pod that went before it was released is no failure": {
			pod: claimable(false, "owner"), answer: apierrors.NewNotFound(pods, "pod"), want: "released: not the set's",
		},
		"a pod that was replaced before it was released is no failure": {
			pod: claimable(false, "owner"), answer: invalid, want: "released: not the set's",
		},
		"a release that a policy denies is tried again": {
			pod: claimable(false, "owner"), answer: denied, want: "released: not the set's; to be tried again",
			err: "release ns/pod: " + denied.Error(),
		},
		"a release that fails is tried again": {
			pod: claimable(false, "owner"), answer: errors.New("timeout"), want: "released: not the set's; to be tried again",
			err: "release ns/pod: timeout",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := cmp.Or(tt.owner, &appsv1.ReplicaSet{})
			var patches []string
			c := claimer(owner, func() error { return tt.canAdopt }, func(patch string) error {
				patches = append(patches, patch)
				return tt.answer
			})
			claimed, err := c.Claim(t.Context(), []*corev1.Pod{tt.pod})
			assert.Equal(t, tt.want, becomes(claimed, patches, err))
			if tt.err != "" {
				assert.ErrorContains(t, err, tt.err)
			}
		})
	}
}

func TestClaimOfSeveral(t *testing.T) {
	t.Parallel()
	mine, strange, orphan := claimable(true, "owner"), claimable(false, ""), claimable(true, "")
	timesAsked := func(t *testing.T, pods ...*corev1.Pod) string {
		asked := 0
		c := claimer(&appsv1.ReplicaSet{}, func() error { asked++; return nil }, func(string) error { return nil })
		_, err := c.Claim(t.Context(), pods)
		require.NoError(t, err)
		return fmt.Sprintf("the API server was asked for the set %d times", asked)
	}
	t.Run("without an orphan to adopt the API server is not asked for the set", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "the API server was asked for the set 0 times", timesAsked(t, mine, strange))
	})
	t.Run("for several orphans the API server is asked for the set once", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "the API server was asked for the set 1 times", timesAsked(t, orphan, orphan))
	})
	t.Run("a pod that was adopted is returned as it is now, and the others as they were", func(t *testing.T) {
		t.Parallel()
		c := claimer(&appsv1.ReplicaSet{}, func() error { return nil }, func(string) error { return nil })
		other := claimable(true, "owner")
		other.UID = "other"
		claimed, err := c.Claim(t.Context(), []*corev1.Pod{other, orphan})
		require.NoError(t, err)
		require.Len(t, claimed, 2)
		assert.Equal(t, []string{"", "now"}, []string{claimed[0].ResourceVersion, claimed[1].ResourceVersion})
	})
	t.Run("one pod that cannot be adopted and one that cannot be released do not hide the others", func(t *testing.T) {
		t.Parallel()
		c := claimer(&appsv1.ReplicaSet{}, func() error { return nil }, func(string) error { return errors.New("timeout") })
		claimed, err := c.Claim(t.Context(), []*corev1.Pod{orphan, mine, claimable(false, "owner")})
		assert.True(t, reflect.DeepEqual([]*corev1.Pod{mine}, claimed), "the pod that is the set's and matches is returned, and no other: %d pods", len(claimed))
		assert.ErrorContains(t, err, "adopt ns/pod: timeout")
		assert.ErrorContains(t, err, "release ns/pod: timeout")
	})
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
