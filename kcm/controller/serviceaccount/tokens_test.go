package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func init() {
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

// controllerWithQueues returns one that does not run, but when the test ends it is
// run and stopped at once, to end the goroutines of its queues.
func controllerWithQueues(t *testing.T) *TokensController {
	t.Helper()
	client := fake.NewClientset()
	core := informers.NewSharedInformerFactory(client, 0).Core().V1()
	c := NewTokensController(core.ServiceAccounts(), core.Secrets(), client, TokensControllerOptions{})
	c.synced = nil
	t.Cleanup(func() {
		ctx, stop := context.WithCancel(context.Background())
		stop()
		c.Run(ctx, 0)
	})
	return c
}

// queued runs a controller whose loops do nothing but note their keys.
func queued(t *testing.T, enqueue func(c *TokensController)) (accounts []accountKey, secrets []secretKey) {
	t.Helper()
	var lock sync.Mutex
	synctest.Test(t, func(t *testing.T) {
		c := controllerWithQueues(t)
		c.accounts.Sync = func(_ context.Context, key accountKey) error {
			lock.Lock()
			defer lock.Unlock()
			accounts = append(accounts, key)
			return nil
		}
		c.secrets.Sync = func(_ context.Context, key secretKey) error {
			lock.Lock()
			defer lock.Unlock()
			secrets = append(secrets, key)
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx, 1) })
		enqueue(c)
		synctest.Wait()
		stop()
		running.Wait()
	})
	return accounts, secrets
}

func TestOnlyTokenSecretsThatNameAnAccountAreQueued(t *testing.T) {
	t.Parallel()
	opaque, nameless, token := tokenSecret("uid", nil), tokenSecret("uid", nil), tokenSecret("uid", nil)
	opaque.Name, opaque.Type = "opaque", corev1.SecretTypeOpaque
	nameless.Name, nameless.Annotations = "nameless", nil
	_, secrets := queued(t, func(c *TokensController) {
		handlers := c.secretHandlers()
		handlers.Add(opaque)
		handlers.Update(opaque, opaque)
		handlers.Delete(opaque)
		handlers.Add(nameless)
		handlers.Add(token)
	})
	assert.Equal(t, []secretKey{{
		ObjectName: cache.NewObjectName("shop", "builder-token"),
		uid:        "secret-uid",
		account:    accountKey{cache.NewObjectName("shop", "builder"), "uid"},
	}}, secrets)
}

func TestAnotherRootCAHasAllTokenSecretsLookedAt(t *testing.T) {
	t.Parallel()
	opaque, token, another := tokenSecret("uid", nil), tokenSecret("uid", nil), tokenSecret("uid", nil)
	opaque.Name, opaque.Type = "opaque", corev1.SecretTypeOpaque
	another.Name = "another"
	_, secrets := queued(t, func(c *TokensController) {
		indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		for _, secret := range []*corev1.Secret{opaque, token, another} {
			assert.NoError(t, indexer.Add(secret))
		}
		c.secretLister = corelisters.NewSecretLister(indexer)
		c.Enqueue()
	})
	account := accountKey{cache.NewObjectName("shop", "builder"), "uid"}
	assert.ElementsMatch(t, []secretKey{
		{cache.NewObjectName("shop", "builder-token"), "secret-uid", account},
		{cache.NewObjectName("shop", "another"), "secret-uid", account},
	}, secrets)
}

func TestOnlyAccountsThatWentAreQueued(t *testing.T) {
	t.Parallel()
	accounts, _ := queued(t, func(c *TokensController) {
		handlers := c.accountHandlers()
		assert.Nil(t, handlers.Add, "the Secrets of a new account are the business of the other loop")
		assert.Nil(t, handlers.Update, "the Secrets of an account that has changed are the business of the other loop")
		handlers.Delete(builder("deleted"))
	})
	assert.Equal(t, []accountKey{{cache.NewObjectName("shop", "builder"), "deleted"}}, accounts)
}

// Each request to write is refused so often, and then granted.
func TestWhatWasRefusedIsDoneWhenItMayBe(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{
		apierrors.NewForbidden(corev1.Resource("secrets"), "builder-token", errors.New("not now")),
		apierrors.NewConflict(corev1.Resource("secrets"), "builder-token", errors.New("not now")),
		apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), "builder-token", nil),
		apierrors.NewInternalError(errors.New("failed calling webhook")),
	} {
		for _, refusals := range []int{3, 15} {
			t.Run(fmt.Sprintf("%s, %d times", apierrors.ReasonForError(refusal), refusals), func(t *testing.T) {
				t.Parallel()
				client := refused(t, refusal, refusals, builder("uid"), tokenSecret("", nil))
				secret, err := client.CoreV1().Secrets("shop").Get(t.Context(), "builder-token", metav1.GetOptions{})
				require.NoError(t, err)
				assert.NotEmpty(t, secret.Data["token"], "a Secret that lacked its token")

				client = refused(t, refusal, refusals, tokenSecret("gone", nil))
				_, err = client.CoreV1().Secrets("shop").Get(t.Context(), "builder-token", metav1.GetOptions{})
				assert.True(t, apierrors.IsNotFound(err), "a Secret whose account is gone: %v", err)
			})
		}
	}
}

// refused runs a controller for a day, of whose requests to write the first are
// refused, and returns the API server.
func refused(t *testing.T, refusal error, refusals int, objects ...runtime.Object) *fake.Clientset {
	t.Helper()
	client := fake.NewClientset(objects...)
	refuse := func(clienttesting.Action) (bool, runtime.Object, error) {
		refusals--
		return refusals >= 0, nil, refusal
	}
	client.PrependReactor("update", "secrets", refuse)
	client.PrependReactor("delete", "secrets", refuse)
	options := TokensControllerOptions{TokenGenerator: generator(t), RootCA: func() []byte { return rootCA }}
	synctest.Test(t, func(t *testing.T) {
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
		core := factory.Core().V1()
		c := NewTokensController(core.ServiceAccounts(), core.Secrets(), client, options)
		ctx, stop := context.WithCancel(t.Context())
		factory.Start(ctx.Done())
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx, 1) })
		time.Sleep(24 * time.Hour)
		stop()
		running.Wait()
		factory.Shutdown()
	})
	return client
}
