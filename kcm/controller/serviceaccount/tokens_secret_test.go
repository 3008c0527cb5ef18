package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
)

func TestACacheIsBelievedWhereAMistakeCorrectsItself(t *testing.T) {
	t.Parallel()
	filled, unfilled := tokenSecret("uid", nil), tokenSecret("", nil)
	for _, test := range []struct {
		name         string
		cached, live []runtime.Object
		key          secretKey
		situation    string
		observed     string
	}{
		{
			name:   "when the caches have both, nothing is asked",
			cached: []runtime.Object{filled, builder("uid")}, key: keyOf(filled),
			situation: "the caches have the Secret and its account",
			observed:  "Secret there, account uid with the list []; asked 0 times",
		},
		{
			name: "an account that the caches do not have may list a Secret that is gone",
			live: []runtime.Object{builder("uid")}, key: keyOf(filled),
			situation: "the caches have neither the Secret nor its account",
			observed:  "Secret gone, account uid with the list []; asked 1 times",
		},
		{
			name:   "an account that the cache has not heard of yet is found",
			cached: []runtime.Object{filled}, live: []runtime.Object{builder("uid")}, key: keyOf(filled),
			situation: "the cache of accounts is behind: the API server has the account already",
			observed:  "Secret there, account uid with the list []; asked 1 times",
		},
		{
			name:   "an account is gone when the API server says so",
			cached: []runtime.Object{filled}, key: keyOf(filled),
			situation: "neither the cache nor the API server has the account",
			observed:  "Secret there, account gone; asked 1 times",
		},
		{
			name:   "an account that is to be written is read anew",
			cached: []runtime.Object{builder("uid")}, live: []runtime.Object{builder("uid", "builder-token", "another")}, key: keyOf(filled),
			situation: "the Secret is gone, and the list of its account has grown since the cache heard of it",
			observed:  "Secret gone, account uid with the list [builder-token another]; asked 1 times",
		},
		{
			name:   "another account of the name is no heir",
			cached: []runtime.Object{filled, builder("other")}, live: []runtime.Object{builder("other")}, key: keyOf(filled),
			situation: "the Secret was filled for the account uid, and other has its name now",
			observed:  "Secret there, account gone; asked 1 times",
		},
		{
			name:   "a former account in the cache is not the one that is meant",
			cached: []runtime.Object{filled, builder("former")}, live: []runtime.Object{builder("uid")}, key: keyOf(filled),
			situation: "the Secret was filled for the account uid, and the cache still has its predecessor",
			observed:  "Secret there, account uid with the list []; asked 1 times",
		},
		{
			name:   "an unfilled Secret is for whoever has the name now",
			cached: []runtime.Object{unfilled, builder("former")}, live: []runtime.Object{builder("next")}, key: keyOf(unfilled),
			situation: "the Secret has no UID of an account yet, and the cache still has the predecessor of the account that is there",
			observed:  "Secret there, account next with the list []; asked 1 times",
		},
		{
			name:   "an unfilled Secret of an account that is gone is nobody's",
			cached: []runtime.Object{unfilled, builder("former")}, key: keyOf(unfilled),
			situation: "the Secret has no UID of an account yet, and the cache still has an account that is gone",
			observed:  "Secret there, account gone; asked 1 times",
		},
		{
			name:   "the annotations of now say whose a Secret is",
			cached: []runtime.Object{filled, builder("uid")}, key: keyOf(tokenSecret("before", nil)),
			situation: "when the key was queued, the Secret was of the account before, and now it is of uid",
			observed:  "Secret there, account uid with the list []; asked 0 times",
		},
		{
			name:   "another Secret of the name is not the one that is meant",
			cached: []runtime.Object{filled, builder("uid", "first")}, live: []runtime.Object{builder("uid", "first")},
			key:       secretKey{cache.NewObjectName("shop", "builder-token"), "former", accountOf(filled)},
			situation: "the Secret of the key was deleted, and another was created under its name",
			observed:  "Secret gone, account uid with the list [first]; asked 1 times",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, client := controllerOn(t, test.cached, test.live)
			seen, err := c.observeSecret(t.Context(), test.key)
			require.NoError(t, err, test.situation)
			assert.Equal(t, "builder-token", seen.name, "the name of the Secret that is observed")
			assert.Equal(t, test.observed, fmt.Sprintf("%s; asked %d times", seen.inWords(), len(client.Actions())), test.situation)
		})
	}
	for name, asked := range map[string]int{"": 0, "..": 0, "../builder": 0, "a%2fb": 0, strings.Repeat("a", 253): 1} {
		t.Run("no path is the name of an account", func(t *testing.T) {
			t.Parallel()
			climbing := tokenSecret("uid", nil)
			climbing.Annotations[corev1.ServiceAccountNameKey] = name
			c, client := controllerOn(t, []runtime.Object{climbing}, nil)
			seen, err := c.observeSecret(t.Context(), keyOf(climbing))
			require.NoError(t, err)
			assert.Nil(t, seen.account, "an annotation of the Secret says that it is for %q", name)
			assert.Len(t, client.Actions(), asked, "an annotation of the Secret says that it is for %q", name)
		})
	}
	t.Run("a server in trouble is no answer", func(t *testing.T) {
		t.Parallel()
		c, client := controllerOn(t, []runtime.Object{filled}, nil)
		refuse(client, "get", "serviceaccounts", apierrors.NewInternalError(errors.New("boom")))
		_, err := c.observeSecret(t.Context(), keyOf(filled))
		assert.Error(t, err, "the API server does not say whether the account is there, so nobody may conclude that it is gone")
	})
	t.Run("a cache that cannot be read is no answer", func(t *testing.T) {
		t.Parallel()
		cached := []runtime.Object{filled, builder("uid")}
		c, _ := controllerOn(t, cached, nil)
		c.secretLister = corelisters.NewSecretLister(brokenIndexer{})
		_, err := c.observeSecret(t.Context(), keyOf(filled))
		assert.ErrorIs(t, err, errBroken, "nobody may conclude that the Secret is gone")

		c, _ = controllerOn(t, cached, nil)
		c.accountLister = corelisters.NewServiceAccountLister(brokenIndexer{})
		_, err = c.observeSecret(t.Context(), keyOf(filled))
		assert.ErrorIs(t, err, errBroken, "nobody may conclude that the account is gone")
	})
}

var errBroken = errors.New("the cache is broken")

type brokenIndexer struct{ cache.Indexer }

func (brokenIndexer) GetByKey(string) (any, bool, error) { return nil, false, errBroken }

// refuse has the API server answer with an error.
func refuse(client *fake.Clientset, verb, resource string, refusal error) {
	client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, refusal
	})
}

func TestATokenIsThereAndStays(t *testing.T) {
	t.Parallel()
	type data = map[string]string
	const filled = `ca.crt "root CA", namespace "shop", token "t", of builder with UID "uid"`
	for _, test := range []struct {
		name   string
		has    data
		rootCA []byte
		does   string
	}{
		{
			name:   "an empty Secret gets all three",
			rootCA: rootCA,
			does:   `write ca.crt "root CA", namespace "shop", of builder with UID "uid"; sign a token for builder with UID "uid"`,
		},
		{
			name: "nothing is written to one that lacks nothing",
			has:  data{"ca.crt": "root CA", "namespace": "shop", "token": "t"}, rootCA: rootCA,
			does: "nothing is written",
		},
		{
			name: "a new CA bundle replaces the old one and leaves the token",
			has:  data{"ca.crt": "old", "namespace": "shop", "token": "t"}, rootCA: rootCA,
			does: "write " + filled,
		},
		{
			name: "without a CA bundle, the one that is there stays",
			has:  data{"ca.crt": "old", "namespace": "shop", "token": "t"},
			does: "nothing is written",
		},
		{
			name: "without a CA bundle, none is written",
			does: `write namespace "shop", of builder with UID "uid"; sign a token for builder with UID "uid"`,
		},
		{
			name: "a namespace that is missing is written",
			has:  data{"ca.crt": "root CA", "token": "t"}, rootCA: rootCA,
			does: "write " + filled,
		},
		{
			name: "a namespace that somebody wrote stays",
			has:  data{"ca.crt": "root CA", "namespace": "other", "token": "t"}, rootCA: rootCA,
			does: "nothing is written",
		},
		{
			name: "a token that was taken out is signed anew",
			has:  data{"ca.crt": "root CA", "namespace": "shop"}, rootCA: rootCA,
			does: `write ca.crt "root CA", namespace "shop", of builder with UID "uid"; sign a token for builder with UID "uid"`,
		},
		{
			name: "a token that was emptied is signed anew",
			has:  data{"ca.crt": "root CA", "namespace": "shop", "token": ""}, rootCA: rootCA,
			does: `write ca.crt "root CA", namespace "shop", token "", of builder with UID "uid"; sign a token for builder with UID "uid"`,
		},
		{
			name: "what else is in the Secret stays",
			has:  data{"extra": "e", "namespace": "other", "token": "t"}, rootCA: rootCA,
			does: `write ca.crt "root CA", extra "e", namespace "other", token "t", of builder with UID "uid"`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			plan := fill(tokenSecret("", test.has), builder("uid"), test.rootCA)
			assert.Equal(t, test.does, plan.inWords(), "the Secret holds %v, and the CA bundle is %q", test.has, test.rootCA)
		})
	}
	t.Run("what is written says for whom, by name and UID", func(t *testing.T) {
		t.Parallel()
		secret := tokenSecret("", nil)
		secret.Annotations = map[string]string{"mine": "m"}
		plan := fill(secret, builder("uid"), rootCA)
		require.NotNil(t, plan.update, "an empty Secret is written")
		assert.Equal(t, map[string]string{
			"mine":                               "m",
			"kubernetes.io/service-account.name": "builder",
			"kubernetes.io/service-account.uid":  "uid",
		}, plan.update.Annotations, "annotations")
	})
	t.Run("the cache's own Secret is not changed", func(t *testing.T) {
		t.Parallel()
		for _, secret := range []*corev1.Secret{tokenSecret("", nil), tokenSecret("", data{"token": "t", "ca.crt": "old"})} {
			before := contents(secret)
			fill(secret, builder("uid"), rootCA)
			assert.Equal(t, before, contents(secret), "the Secret that the lister returned, afterwards")
		}
	})
	t.Run("a Secret that was written lacks nothing more", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			key := rapid.SampledFrom([]string{"ca.crt", "namespace", "token", "extra"})
			has := rapid.MapOf(key, rapid.SampledFrom([]string{"", "x", "root CA"})).Draw(t, "data")
			ca := rapid.SampledFrom([][]byte{nil, rootCA}).Draw(t, "root CA")
			plan := fill(tokenSecret("", has), builder("uid"), ca)
			if plan.update == nil {
				return
			}
			if had := has["token"]; had != "" {
				assert.Equal(t, had, string(plan.update.Data["token"]), "a token is never replaced")
			}
			if plan.sign != nil {
				plan.update.Data["token"] = []byte("signed")
			}
			again := fill(plan.update, builder("uid"), ca)
			assert.Equal(t, "nothing is written", again.inWords(), "the second look, after a write of %s", contents(plan.update))
		})
	})
}

func TestATokenSecretWithoutItsAccountIsDeleted(t *testing.T) {
	t.Parallel()
	secret := tokenSecret("uid", map[string]string{"token": "t"})
	plan := decideSecret(observedSecret{name: "builder-token", secret: secret}, rootCA)
	assert.Equal(t, secretPlan{delete: secret}, plan)
}

func TestADeletedSecretIsTakenOutOfItsAccount(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		listed []string
		does   string
	}{
		"the only one":            {[]string{"builder-token"}, "leave [] in the list of builder"},
		"one of several":          {[]string{"a", "builder-token", "b"}, "leave [a b] in the list of builder"},
		"listed twice":            {[]string{"builder-token", "a", "builder-token"}, "leave [a] in the list of builder"},
		"not listed":              {[]string{"a"}, "nothing is written"},
		"the account has no list": {nil, "nothing is written"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			account := builder("uid", test.listed...)
			before := account.DeepCopy()
			plan := decideSecret(observedSecret{name: "builder-token", account: account}, rootCA)
			assert.Equal(t, test.does, plan.inWords())
			assert.Equal(t, before, account, "the account that was read is not changed")
		})
	}
}

func TestNothingIsDoneWhenSecretAndAccountAreGone(t *testing.T) {
	t.Parallel()
	assert.Equal(t, secretPlan{}, decideSecret(observedSecret{name: "builder-token"}, rootCA))
}

func TestAWriteIsTriedAgainUnlessItsObjectIsGone(t *testing.T) {
	t.Parallel()
	secrets, accounts := corev1.Resource("secrets"), corev1.Resource("serviceaccounts")
	changed, webhook := errors.New("changed in the meantime"), errors.New("a webhook says no")
	another := errors.New("Precondition failed: UID in precondition: secret-uid, UID in object meta: another")
	for _, test := range []struct {
		name           string
		write          func(ctx context.Context, c *TokensController) error
		verb, resource string
		refusal        error
		then           string
	}{
		{
			name:  "a Secret that somebody else has changed is read and written again",
			write: writeSecret, verb: "update", resource: "secrets",
			refusal: apierrors.NewConflict(secrets, "builder-token", changed), then: "tries again",
		},
		{
			name:  "a Secret whose name another has by now needs no token",
			write: writeSecret, verb: "update", resource: "secrets",
			refusal: apierrors.NewConflict(secrets, "builder-token", another), then: "is content",
		},
		{
			name:  "a Secret that is gone needs no token",
			write: writeSecret, verb: "update", resource: "secrets",
			refusal: apierrors.NewNotFound(secrets, "builder-token"), then: "is content",
		},
		{
			name:  "a Secret that could not be written is tried again",
			write: writeSecret, verb: "update", resource: "secrets",
			refusal: apierrors.NewInternalError(changed), then: "tries again",
		},
		{
			name:  "an account that somebody else has changed is read and written again",
			write: writeAccount, verb: "update", resource: "serviceaccounts",
			refusal: apierrors.NewConflict(accounts, "builder", changed), then: "tries again",
		},
		{
			name:  "an account that is gone has no list to mend",
			write: writeAccount, verb: "update", resource: "serviceaccounts",
			refusal: apierrors.NewNotFound(accounts, "builder"), then: "is content",
		},
		{
			name:  "an account that could not be written is tried again",
			write: writeAccount, verb: "update", resource: "serviceaccounts",
			refusal: apierrors.NewInternalError(changed), then: "tries again",
		},
		{
			name:  "a Secret whose name another has by now is gone",
			write: deleteSecret, verb: "delete", resource: "secrets",
			refusal: apierrors.NewConflict(secrets, "builder-token", another), then: "is content",
		},
		{
			name:  "a deletion that a webhook refuses is tried again, with whatever number it does that",
			write: deleteSecret, verb: "delete", resource: "secrets",
			refusal: apierrors.NewConflict(secrets, "builder-token", webhook), then: "tries again",
		},
		{
			name:  "a Secret that somebody else has deleted is gone",
			write: deleteSecret, verb: "delete", resource: "secrets",
			refusal: apierrors.NewNotFound(secrets, "builder-token"), then: "is content",
		},
		{
			name:  "a Secret that could not be deleted is tried again",
			write: deleteSecret, verb: "delete", resource: "secrets",
			refusal: apierrors.NewInternalError(changed), then: "tries again",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, client := controllerOn(t, nil, []runtime.Object{tokenSecret("uid", nil), builder("uid")})
			refuse(client, test.verb, test.resource, test.refusal)
			err := test.write(t.Context(), c)
			assert.Len(t, client.Actions(), 1, "one request is sent")
			then := "is content"
			if err != nil {
				then = "tries again"
				assert.ErrorIs(t, err, test.refusal, "the error has the API server's reason")
				assert.ErrorContains(t, err, "shop/builder", "the error says which object")
			}
			assert.Equal(t, test.then, then, "the API server answers the %s: %v", test.verb, test.refusal)
		})
	}
}

func TestAnImmutableSecretIsNotWritten(t *testing.T) {
	t.Parallel()
	secret := tokenSecret("uid", nil)
	secret.Immutable = new(true)
	c, client := controllerOn(t, []runtime.Object{secret, builder("uid")}, nil)
	require.NoError(t, c.syncSecret(t.Context(), keyOf(secret)))
	assert.Empty(t, client.Actions(), "the API server would refuse a token in it for ever")
}

func writeSecret(ctx context.Context, c *TokensController) error {
	return c.updateSecret(ctx, tokenSecret("uid", map[string]string{"token": "t"}), nil)
}

func writeAccount(ctx context.Context, c *TokensController) error {
	return c.updateAccount(ctx, builder("uid", "others"))
}

func deleteSecret(ctx context.Context, c *TokensController) error {
	return c.deleteSecret(ctx, tokenSecret("uid", nil))
}

func TestAWriteMeansWhatWasRead(t *testing.T) {
	t.Parallel()
	t.Run("a Secret is written as it was planned, with the version that was read", func(t *testing.T) {
		t.Parallel()
		c, client := controllerOn(t, nil, []runtime.Object{tokenSecret("uid", nil)})
		require.NoError(t, writeSecret(t.Context(), c))
		written := client.Actions()[0].(clienttesting.UpdateAction).GetObject().(*corev1.Secret)
		assert.Equal(t, `token "t", of builder with UID "uid", version 7`, contents(written)+", version "+written.ResourceVersion)
	})
	t.Run("an account is written as it was planned, with the version that was read", func(t *testing.T) {
		t.Parallel()
		c, client := controllerOn(t, nil, []runtime.Object{builder("uid", "builder-token", "others")})
		require.NoError(t, writeAccount(t.Context(), c))
		written := client.Actions()[0].(clienttesting.UpdateAction).GetObject().(*corev1.ServiceAccount)
		assert.Equal(t, "list [others], version 7", fmt.Sprintf("list %v, version %s", listed(written), written.ResourceVersion))
	})
	t.Run("a deletion names the UID that it means", func(t *testing.T) {
		t.Parallel()
		c, client := controllerOn(t, nil, []runtime.Object{tokenSecret("uid", nil)})
		require.NoError(t, deleteSecret(t.Context(), c))
		seen := "any Secret of the name"
		options := client.Actions()[0].(clienttesting.DeleteActionImpl).DeleteOptions
		if options.Preconditions != nil && options.Preconditions.UID != nil {
			seen = "the Secret with the UID " + string(*options.Preconditions.UID)
		}
		assert.Equal(t, "the Secret with the UID secret-uid", seen, "what the API server is asked to delete")
	})
	t.Run("the token that a plan asks for is signed and written", func(t *testing.T) {
		t.Parallel()
		c, client := controllerOn(t, nil, []runtime.Object{tokenSecret("uid", nil)})
		require.NoError(t, c.updateSecret(t.Context(), tokenSecret("uid", map[string]string{"ca.crt": "root CA"}), builder("uid")))
		written := client.Actions()[0].(clienttesting.UpdateAction).GetObject().(*corev1.Secret)
		assert.Equal(t, "root CA", string(written.Data["ca.crt"]))
		assert.Equal(t, "uid", saidBy(t, string(written.Data["token"]))["kubernetes.io/serviceaccount/service-account.uid"],
			"the UID in the token that was written")
	})
	t.Run("without a signature nothing is written", func(t *testing.T) {
		t.Parallel()
		c, client := controllerOn(t, nil, []runtime.Object{tokenSecret("uid", nil)})
		c.tokens = TokenGenerator{signer: brokenSigner{}}
		err := c.updateSecret(t.Context(), tokenSecret("uid", map[string]string{"ca.crt": "root CA"}), builder("uid"))
		assert.ErrorIs(t, err, errNoSignature, "the signer fails")
		assert.Empty(t, client.Actions(), "requests to the API server")
	})
}
