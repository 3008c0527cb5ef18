package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
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
	restored := called("restored", tokenSecret("", map[string]string{"token": "t"}))
	another := called("another", tokenSecret("another", nil))
	nobody, next := (*corev1.ServiceAccount)(nil), builder("next")
	for _, test := range []struct {
		name    string
		current *corev1.ServiceAccount
		secrets []*corev1.Secret
		want    string
	}{
		{"all Secrets that were filled for it are deleted", nobody, []*corev1.Secret{first, second}, "delete [first second], hand on []"},
		{"another account of its name inherits none", next, []*corev1.Secret{first, second}, "delete [first second], hand on []"},
		{"one that was filled for another account of the name stays", nobody, []*corev1.Secret{another, first}, "delete [first], hand on []"},
		{"one of an account with another name stays", nobody, []*corev1.Secret{testers, first}, "delete [first], hand on []"},
		{"a Secret of another type stays", nobody, []*corev1.Secret{opaque, first}, "delete [first], hand on []"},
		{"one that nobody has filled may be for the next, whom the cache need not have yet", nobody, []*corev1.Secret{unfilled, first}, "delete [first], hand on [unfilled]"},
		{"nor does the cache say that the next is there still", next, []*corev1.Secret{unfilled, first}, "delete [first], hand on [unfilled]"},
		{"a filled one without a UID is handed to the other loop", nobody, []*corev1.Secret{restored, first}, "delete [first], hand on [restored]"},
		{"an account that is there after all keeps what was made for it", builder("old"), []*corev1.Secret{first, unfilled}, "delete [], hand on []"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			objects := []runtime.Object{called("of-another-namespace", in("elsewhere", tokenSecret("old", nil)))}
			for _, secret := range test.secrets {
				objects = append(objects, secret)
			}
			if test.current != nil {
				objects = append(objects, test.current)
			}
			c, client := controllerOn(t, objects, objects)
			handed := handedOn(t, c, func() { require.NoError(t, c.syncAccount(t.Context(), goneBuilder)) })
			has := "nobody has the name now"
			if test.current != nil {
				has = "the name belongs to the account with UID " + string(test.current.UID) + " now"
			}
			assert.Equal(t, test.want, requested(client)+fmt.Sprintf(", hand on %v", handed),
				"the account builder with UID old was deleted, %s, and there are: %s", has, inWords(test.secrets))
		})
	}
	t.Run("one that cannot be deleted does not keep the others", func(t *testing.T) {
		t.Parallel()
		objects := []runtime.Object{first, second}
		c, client := controllerOn(t, objects, objects)
		boom := apierrors.NewInternalError(errors.New("boom"))
		refuse(client, "delete", "secrets", boom)
		err := c.syncAccount(t.Context(), goneBuilder)
		assert.Equal(t, "delete [first second]", requested(client), "the API server refuses each deletion")
		assert.ErrorIs(t, err, boom, "the Secrets are still there, so the key has to come back")
	})
	t.Run("a cache that cannot be read is no answer", func(t *testing.T) {
		t.Parallel()
		cached := []runtime.Object{first, builder("next")}
		c, _ := controllerOn(t, cached, cached)
		c.secretLister = brokenSecrets{}
		assert.ErrorIs(t, c.syncAccount(t.Context(), goneBuilder), errBroken, "the cache of Secrets cannot be read")

		c, client := controllerOn(t, cached, cached)
		c.accountLister = corelisters.NewServiceAccountLister(brokenIndexer{})
		assert.ErrorIs(t, c.syncAccount(t.Context(), goneBuilder), errBroken, "the cache of accounts cannot be read")
		assert.Equal(t, "delete []", requested(client), "nobody may conclude that the account or a Secret is gone")
	})
}

// handedOn returns the Secrets that the loop of Secrets is to look at because of what is done.
func handedOn(t *testing.T, c *TokensController, do func()) (names []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c.secrets = controller.NewLoop(controller.LoopConfig[secretKey]{Sync: func(_ context.Context, key secretKey) error {
			names = append(names, key.Name)
			return nil
		}})
		do()
		ctx, stop := context.WithCancel(t.Context())
		go c.secrets.Run(ctx, 1)
		synctest.Wait()
		stop()
		synctest.Wait()
	})
	return names
}

// brokenSecrets is a cache of Secrets that cannot be listed.
type brokenSecrets struct {
	corelisters.SecretLister
	corelisters.SecretNamespaceLister
}

func (b brokenSecrets) Secrets(string) corelisters.SecretNamespaceLister { return b }

func (brokenSecrets) List(labels.Selector) ([]*corev1.Secret, error) { return nil, errBroken }

// goneBuilder is the key of a ServiceAccount that was deleted.
var goneBuilder = accountKey{cache.NewObjectName("shop", "builder"), "old"}

func in(namespace string, secret *corev1.Secret) *corev1.Secret {
	secret.Namespace = namespace
	return secret
}

// requested says what the API server was asked to do: to delete Secrets, in the
// order of their names, and whatever else there was.
func requested(client *fake.Clientset) string {
	var deleted, other []string
	for _, action := range client.Actions() {
		if deletion, ok := action.(clienttesting.DeleteAction); ok && action.GetResource().Resource == "secrets" {
			deleted = append(deleted, deletion.GetName())
			continue
		}
		other = append(other, fmt.Sprintf("; %s %s", action.GetVerb(), action.GetResource().Resource))
	}
	slices.Sort(deleted)
	return fmt.Sprintf("delete %v", deleted) + strings.Join(other, "")
}

// inWords says whose Secrets they are.
func inWords(secrets []*corev1.Secret) string {
	var all []string
	for _, secret := range secrets {
		of := accountOf(secret)
		words := fmt.Sprintf("%s of %s with UID %s", secret.Name, of.Name, of.uid)
		if of.uid == "" {
			words = fmt.Sprintf("%s of %s, which nobody has filled", secret.Name, of.Name)
			if len(secret.Data) > 0 {
				words = fmt.Sprintf("%s of %s, which is filled and bears no UID", secret.Name, of.Name)
			}
		}
		if secret.Type != corev1.SecretTypeServiceAccountToken {
			words += ", whose type is " + string(secret.Type)
		}
		all = append(all, words)
	}
	return strings.Join(all, "; ")
}
