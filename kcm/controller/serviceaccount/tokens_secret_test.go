package serviceaccount

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
)

var rootCA = []byte("root CA")

func builder(uid types.UID, secrets ...string) *corev1.ServiceAccount {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "builder", UID: uid}}
	for _, name := range secrets {
		account.Secrets = append(account.Secrets, corev1.ObjectReference{Name: name})
	}
	return account
}

// tokenSecret is a Secret for the account called builder. An empty uid leaves
// the annotation out.
func tokenSecret(uid string, data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "token", UID: "secret-uid",
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "builder"},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	if uid != "" {
		secret.Annotations[corev1.ServiceAccountUIDKey] = uid
	}
	for key, value := range data {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = []byte(value)
	}
	return secret
}

func textData(secret *corev1.Secret) map[string]string {
	data := map[string]string{}
	for key, value := range secret.Data {
		data[key] = string(value)
	}
	return data
}

func TestATokenSecretIsFilledWithWhatItLacks(t *testing.T) {
	t.Parallel()
	type data = map[string]string
	for name, test := range map[string]struct {
		has     data
		rootCA  []byte
		becomes data // nil: no update
		signed  bool
	}{
		"an empty one gets all three": {
			rootCA: rootCA, becomes: data{"ca.crt": "root CA", "namespace": "ns"}, signed: true,
		},
		"a full one is left alone": {
			has: data{"ca.crt": "root CA", "namespace": "ns", "token": "t"}, rootCA: rootCA,
		},
		"another root CA replaces the old one and leaves the token": {
			has: data{"ca.crt": "old", "namespace": "ns", "token": "t"}, rootCA: rootCA,
			becomes: data{"ca.crt": "root CA", "namespace": "ns", "token": "t"},
		},
		"without a root CA, none is written": {
			becomes: data{"namespace": "ns"}, signed: true,
		},
		"without a root CA, the one that is there stays": {
			has: data{"ca.crt": "old", "namespace": "ns", "token": "t"},
		},
		"a namespace that is missing is written": {
			has: data{"ca.crt": "root CA", "token": "t"}, rootCA: rootCA,
			becomes: data{"ca.crt": "root CA", "namespace": "ns", "token": "t"},
		},
		"a namespace that somebody wrote stays": {
			has: data{"ca.crt": "root CA", "namespace": "other", "token": "t"}, rootCA: rootCA,
		},
		"an emptied token is signed anew": {
			has: data{"ca.crt": "root CA", "namespace": "ns", "token": ""}, rootCA: rootCA,
			becomes: data{"ca.crt": "root CA", "namespace": "ns", "token": ""}, signed: true,
		},
		"what else is in the secret stays": {
			has: data{"extra": "e"}, rootCA: rootCA,
			becomes: data{"extra": "e", "ca.crt": "root CA", "namespace": "ns"}, signed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret, account := tokenSecret("", test.has), builder("uid")
			before := secret.DeepCopy()
			plan := decideSecret(observedSecret{name: "token", secret: secret, account: account}, test.rootCA)
			assert.Equal(t, before, secret, "the cached secret is not changed")
			assert.Nil(t, plan.delete)
			assert.Nil(t, plan.unlink)
			if test.becomes == nil {
				assert.Nil(t, plan.update)
				assert.Nil(t, plan.sign)
				return
			}
			require.NotNil(t, plan.update)
			assert.Equal(t, test.becomes, textData(plan.update))
			assert.Equal(t, "builder", plan.update.Annotations[corev1.ServiceAccountNameKey])
			assert.Equal(t, "uid", plan.update.Annotations[corev1.ServiceAccountUIDKey])
			assert.Equal(t, test.signed, plan.sign == account)
		})
	}
}

func TestATokenSecretWithoutItsAccountIsDeleted(t *testing.T) {
	t.Parallel()
	secret := tokenSecret("uid", map[string]string{"token": "t"})
	plan := decideSecret(observedSecret{name: "token", secret: secret}, rootCA)
	assert.Equal(t, secretPlan{delete: secret}, plan)
}

func TestADeletedSecretIsTakenOutOfItsAccount(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		listed, left []string // left nil: no update
	}{
		"the only one":            {listed: []string{"token"}, left: []string{}},
		"one of several":          {listed: []string{"a", "token", "b"}, left: []string{"a", "b"}},
		"listed twice":            {listed: []string{"token", "a", "token"}, left: []string{"a"}},
		"not listed":              {listed: []string{"a"}},
		"the account has no list": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			account := builder("uid", test.listed...)
			before := account.DeepCopy()
			plan := decideSecret(observedSecret{name: "token", account: account}, rootCA)
			assert.Equal(t, before, account, "the account that was read is not changed")
			if test.left == nil {
				assert.Equal(t, secretPlan{}, plan)
				return
			}
			require.NotNil(t, plan.unlink)
			left := []string{}
			for _, ref := range plan.unlink.Secrets {
				left = append(left, ref.Name)
			}
			assert.Equal(t, test.left, left)
		})
	}
}

func TestNothingIsDoneWhenSecretAndAccountAreGone(t *testing.T) {
	t.Parallel()
	assert.Equal(t, secretPlan{}, decideSecret(observedSecret{name: "token"}, rootCA))
}

func TestAFilledSecretNeedsNothingMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"ca.crt", "namespace", "token", "extra"})
		secret := tokenSecret("", rapid.MapOf(key, rapid.SampledFrom([]string{"", "x", "root CA"})).Draw(t, "data"))
		ca := rapid.SampledFrom([][]byte{nil, rootCA}).Draw(t, "root CA")
		had := string(secret.Data["token"])

		plan := decideSecret(observedSecret{name: "token", secret: secret, account: builder("uid")}, ca)
		if plan.update == nil {
			return
		}
		if plan.sign != nil {
			plan.update.Data["token"] = []byte("signed")
		}
		again := decideSecret(observedSecret{name: "token", secret: plan.update, account: builder("uid")}, ca)
		assert.Equal(t, secretPlan{}, again)
		if had != "" {
			assert.Equal(t, had, string(plan.update.Data["token"]), "a token is never replaced")
		}
	})
}

// controllerOn returns a controller whose caches hold the cached objects and
// whose API server holds the live ones. It does not run, but when the test ends
// it is run and stopped at once, to end the goroutines of its queues.
func controllerOn(t *testing.T, cached, live []runtime.Object) (*TokensController, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(live...)
	factory := informers.NewSharedInformerFactory(client, 0)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	generator, err := NewTokenGenerator(key)
	require.NoError(t, err)
	core := factory.Core().V1()
	c := NewTokensController(core.ServiceAccounts(), core.Secrets(), client,
		TokensControllerOptions{TokenGenerator: generator, RootCA: rootCA})
	t.Cleanup(func() {
		ctx, stop := context.WithCancel(context.Background())
		stop()
		c.synced = nil
		c.Run(ctx, 0)
	})
	for _, obj := range cached {
		switch obj := obj.(type) {
		case *corev1.ServiceAccount:
			require.NoError(t, core.ServiceAccounts().Informer().GetStore().Add(obj))
		case *corev1.Secret:
			require.NoError(t, core.Secrets().Informer().GetStore().Add(obj))
		}
	}
	return c, client
}

func keyOf(secret *corev1.Secret) secretKey {
	return secretKey{cache.MetaObjectToName(secret), secret.UID, accountOf(secret)}
}

func TestAnAccountIsMissedOnlyWhenTheServerMissesIt(t *testing.T) {
	t.Parallel()
	secret := tokenSecret("uid", nil)
	noUID := tokenSecret("", nil)
	for name, test := range map[string]struct {
		cached, live []runtime.Object
		key          secretKey
		secret       bool
		account      types.UID // empty: none
		reads        int
	}{
		"both are cached: the cache is enough": {
			cached: []runtime.Object{secret, builder("uid")}, key: keyOf(secret),
			secret: true, account: "uid",
		},
		"the account is not cached and is there": {
			cached: []runtime.Object{secret}, live: []runtime.Object{builder("uid")}, key: keyOf(secret),
			secret: true, account: "uid", reads: 1,
		},
		"the account is not cached and is gone": {
			cached: []runtime.Object{secret}, key: keyOf(secret),
			secret: true, reads: 1,
		},
		"the account was replaced by another of its name": {
			cached: []runtime.Object{secret, builder("other")}, live: []runtime.Object{builder("other")}, key: keyOf(secret),
			secret: true, reads: 1,
		},
		"the cached account is the old one": {
			cached: []runtime.Object{secret, builder("other")}, live: []runtime.Object{builder("uid")}, key: keyOf(secret),
			secret: true, account: "uid", reads: 1,
		},
		"a secret without uid is for whoever has the name": {
			cached: []runtime.Object{noUID, builder("other")}, key: keyOf(noUID),
			secret: true, account: "other",
		},
		"the key is older than the secret's annotation": {
			cached: []runtime.Object{secret, builder("uid")}, key: keyOf(tokenSecret("wrong", nil)),
			secret: true, account: "uid",
		},
		"the secret is gone: the account is read to be changed": {
			cached: []runtime.Object{builder("uid")}, live: []runtime.Object{builder("uid")}, key: keyOf(secret),
			account: "uid", reads: 1,
		},
		"both are gone": {
			key: keyOf(secret),
		},
		"the secret was replaced by another of its name": {
			cached: []runtime.Object{secret}, key: secretKey{cache.NewObjectName("ns", "token"), "former", accountOf(secret)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, client := controllerOn(t, test.cached, test.live)
			seen, err := c.observeSecret(t.Context(), test.key)
			require.NoError(t, err)
			assert.Equal(t, test.secret, seen.secret != nil, "secret")
			if test.account == "" {
				assert.Nil(t, seen.account)
			} else if assert.NotNil(t, seen.account) {
				assert.Equal(t, test.account, seen.account.UID)
			}
			assert.Len(t, client.Actions(), test.reads)
		})
	}
}

func TestAnErrorOfTheServerIsNotTakenForAMissingAccount(t *testing.T) {
	t.Parallel()
	secret := tokenSecret("uid", nil)
	c, client := controllerOn(t, []runtime.Object{secret}, []runtime.Object{secret})
	client.PrependReactor("get", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("boom"))
	})
	err := c.syncSecret(t.Context(), keyOf(secret))
	require.ErrorContains(t, err, "read service account ns/builder")
	_, err = client.CoreV1().Secrets("ns").Get(t.Context(), "token", metav1.GetOptions{})
	assert.NoError(t, err, "the secret is still there")
}

func TestWritesAreTriedAgainOnlyWhenNothingElseWillTriggerThem(t *testing.T) {
	t.Parallel()
	secrets, accounts := corev1.Resource("secrets"), corev1.Resource("serviceaccounts")
	conflict := errors.New("changed in the meantime")
	unfilled, orphan := tokenSecret("", nil), tokenSecret("gone", nil)
	account := builder("uid", "token")
	for name, test := range map[string]struct {
		cached         []runtime.Object
		key            secretKey
		verb, resource string
		refusal        error
		fails          bool
	}{
		"update of a secret that changed": {
			cached: []runtime.Object{unfilled, account}, key: keyOf(unfilled),
			verb: "update", resource: "secrets", refusal: apierrors.NewConflict(secrets, "token", conflict),
		},
		"update of a secret that went": {
			cached: []runtime.Object{unfilled, account}, key: keyOf(unfilled),
			verb: "update", resource: "secrets", refusal: apierrors.NewNotFound(secrets, "token"),
		},
		"update of a secret in a troubled server": {
			cached: []runtime.Object{unfilled, account}, key: keyOf(unfilled),
			verb: "update", resource: "secrets", refusal: apierrors.NewInternalError(conflict), fails: true,
		},
		"deletion of a secret whose name another has": {
			cached: []runtime.Object{orphan}, key: keyOf(orphan),
			verb: "delete", resource: "secrets", refusal: apierrors.NewConflict(secrets, "token", conflict),
		},
		"deletion of a secret that went": {
			cached: []runtime.Object{orphan}, key: keyOf(orphan),
			verb: "delete", resource: "secrets", refusal: apierrors.NewNotFound(secrets, "token"),
		},
		"deletion of a secret in a troubled server": {
			cached: []runtime.Object{orphan}, key: keyOf(orphan),
			verb: "delete", resource: "secrets", refusal: apierrors.NewInternalError(conflict), fails: true,
		},
		"update of an account that changed": {
			cached: []runtime.Object{account}, key: keyOf(tokenSecret("uid", nil)),
			verb: "update", resource: "serviceaccounts", refusal: apierrors.NewConflict(accounts, "builder", conflict), fails: true,
		},
		"update of an account that went": {
			cached: []runtime.Object{account}, key: keyOf(tokenSecret("uid", nil)),
			verb: "update", resource: "serviceaccounts", refusal: apierrors.NewNotFound(accounts, "builder"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, client := controllerOn(t, test.cached, []runtime.Object{account})
			calls := 0
			client.PrependReactor(test.verb, test.resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				calls++
				return true, nil, test.refusal
			})
			err := c.syncSecret(t.Context(), test.key)
			assert.Equal(t, 1, calls, "the write was tried")
			if test.fails {
				assert.ErrorIs(t, err, test.refusal)
			} else {
				assert.NoError(t, err)
			}
		})
	}
}

func TestADeletionNamesTheUIDThatItMeans(t *testing.T) {
	t.Parallel()
	orphan := tokenSecret("gone", nil)
	c, client := controllerOn(t, []runtime.Object{orphan}, []runtime.Object{orphan})
	require.NoError(t, c.syncSecret(t.Context(), keyOf(orphan)))
	last := client.Actions()[len(client.Actions())-1]
	options := last.(clienttesting.DeleteActionImpl).DeleteOptions
	require.NotNil(t, options.Preconditions)
	assert.Equal(t, types.UID("secret-uid"), *options.Preconditions.UID)
}
