package serviceaccount

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

func called(name string, secret *corev1.Secret) *corev1.Secret {
	secret.Name = name
	return secret
}

func TestTheTokensOfADeletedAccountAreOrphans(t *testing.T) {
	t.Parallel()
	opaque := called("opaque", tokenSecret("gone", nil))
	opaque.Type = corev1.SecretTypeOpaque
	other := called("other", tokenSecret("gone", nil))
	other.Annotations[corev1.ServiceAccountNameKey] = "tester"
	secrets := []*corev1.Secret{
		called("its", tokenSecret("gone", nil)),
		called("its-too", tokenSecret("gone", nil)),
		called("without-uid", tokenSecret("", nil)),
		called("of-another-uid", tokenSecret("other", nil)),
		opaque,
		other,
	}
	for name, test := range map[string]struct {
		current *corev1.ServiceAccount
		orphans []string
	}{
		"nobody has its name now":             {orphans: []string{"its", "its-too", "without-uid"}},
		"another account has its name now":    {current: builder("new"), orphans: []string{"its", "its-too"}},
		"it is there after all: none of them": {current: builder("gone")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gone := accountKey{cache.NewObjectName("ns", "builder"), "gone"}
			var orphans []string
			for _, secret := range decideAccount(gone, observedAccount{current: test.current, secrets: secrets}) {
				orphans = append(orphans, secret.Name)
			}
			assert.Equal(t, test.orphans, orphans)
		})
	}
}

func TestOneTokenThatCannotBeDeletedDoesNotKeepTheOthers(t *testing.T) {
	t.Parallel()
	first, second := called("first", tokenSecret("gone", nil)), called("second", tokenSecret("gone", nil))
	objects := []runtime.Object{first, second}
	c, client := controllerOn(t, objects, objects)
	boom := apierrors.NewInternalError(errors.New("boom"))
	client.PrependReactor("delete", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.(clienttesting.DeleteAction).GetName() == "first", nil, boom
	})
	err := c.syncAccount(t.Context(), accountKey{cache.NewObjectName("ns", "builder"), "gone"})
	assert.ErrorIs(t, err, boom)
	assert.ErrorContains(t, err, "delete token secret ns/first")
	_, err = client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("secrets"), "ns", "second")
	assert.True(t, apierrors.IsNotFound(err), "second is deleted, got: %v", err)
}
