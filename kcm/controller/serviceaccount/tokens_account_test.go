package serviceaccount

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

func TestTheTokensOfADeletedAccountGoWithIt(t *testing.T) {
	t.Parallel()
	opaque := called("opaque", tokenSecret("old", nil))
	opaque.Type = corev1.SecretTypeOpaque
	testers := called("testers", tokenSecret("old", nil))
	testers.Annotations[corev1.ServiceAccountNameKey] = "tester"
	first, second := called("first", tokenSecret("old", nil)), called("second", tokenSecret("old", nil))
	unfilled := called("unfilled", tokenSecret("", nil))
	another := called("another", tokenSecret("another", nil))
	nobody, next := (*corev1.ServiceAccount)(nil), builder("next")
	for _, test := range []struct {
		name    string
		current *corev1.ServiceAccount
		secrets []*corev1.Secret
		orphans []string
	}{
		{"all Secrets that were filled for it are deleted", nobody, []*corev1.Secret{first, second}, []string{"first", "second"}},
		{"another account of its name inherits none", next, []*corev1.Secret{first, second}, []string{"first", "second"}},
		{"one that nobody has filled goes when nobody has the name", nobody, []*corev1.Secret{unfilled}, []string{"unfilled"}},
		{"one that nobody has filled is left for who has the name now", next, []*corev1.Secret{unfilled, first}, []string{"first"}},
		{"one that was filled for another account of the name stays", nobody, []*corev1.Secret{another, first}, []string{"first"}},
		{"one of an account with another name stays", nobody, []*corev1.Secret{testers, first}, []string{"first"}},
		{"a Secret of another type stays", nobody, []*corev1.Secret{opaque, first}, []string{"first"}},
		{"an account that is there after all keeps what was made for it", builder("old"), []*corev1.Secret{first, unfilled}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			gone := accountKey{cache.NewObjectName("shop", "builder"), "old"}
			var orphans []string
			for _, secret := range decideAccount(gone, observedAccount{current: test.current, secrets: test.secrets}) {
				orphans = append(orphans, secret.Name)
			}
			slices.Sort(orphans)
			has := "nobody has the name now"
			if test.current != nil {
				has = "the name belongs to the account with UID " + string(test.current.UID) + " now"
			}
			assert.Equal(t, fmt.Sprintf("delete %v", test.orphans), fmt.Sprintf("delete %v", orphans),
				"the account builder with UID old was deleted, %s, and there are: %s", has, inWords(test.secrets))
		})
	}
}

// inWords says whose Secrets they are.
func inWords(secrets []*corev1.Secret) string {
	var all []string
	for _, secret := range secrets {
		of := accountOf(secret)
		words := fmt.Sprintf("%s of %s with UID %s", secret.Name, of.Name, of.uid)
		if of.uid == "" {
			words = fmt.Sprintf("%s of %s, which nobody has filled", secret.Name, of.Name)
		}
		if secret.Type != corev1.SecretTypeServiceAccountToken {
			words += ", whose type is " + string(secret.Type)
		}
		all = append(all, words)
	}
	return strings.Join(all, "; ")
}

func TestOneTokenThatCannotBeDeletedDoesNotKeepTheOthers(t *testing.T) {
	t.Parallel()
	first, second := called("first", tokenSecret("old", nil)), called("second", tokenSecret("old", nil))
	objects := []runtime.Object{first, second}
	c, client := controllerOn(t, objects, objects)
	boom := apierrors.NewInternalError(errors.New("boom"))
	client.PrependReactor("delete", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.(clienttesting.DeleteAction).GetName() == "first", nil, boom
	})
	err := c.syncAccount(t.Context(), accountKey{cache.NewObjectName("shop", "builder"), "old"})
	assert.ErrorIs(t, err, boom)
	assert.ErrorContains(t, err, "delete token secret shop/first")
	_, err = client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("secrets"), "shop", "second")
	assert.True(t, apierrors.IsNotFound(err), "second is deleted, got: %v", err)
}
