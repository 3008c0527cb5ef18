package serviceaccount

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// Reads is what the loop of the tokens reads of Secrets. That of the accounts reads
// none.
var Reads = []*controller.Keep{
	controller.KeepOf(func(kept, whole *corev1.Secret) {
		if whole.Type == corev1.SecretTypeServiceAccountToken {
			kept.Data = whole.Data
		}
	}),
}

// TokensController looks after Secrets of type
// kubernetes.io/service-account-token. Two loops share the work, because two
// kinds of objects are involved:
//
//   - secrets fills a Secret for its ServiceAccount, deletes one that has no
//     ServiceAccount, and takes a deleted one out of the list of its
//     ServiceAccount;
//   - accounts deletes the Secrets that a deleted ServiceAccount leaves.
type TokensController struct {
	client kubernetes.Interface
	tokens TokenGenerator
	rootCA func() []byte

	accountLister corelisters.ServiceAccountLister
	secretLister  corelisters.SecretLister
	synced        []cache.InformerSynced

	accounts *controller.Loop[accountKey]
	secrets  *controller.Loop[secretKey]
}

// TokensControllerOptions says how a [TokensController] fills Secrets.
type TokensControllerOptions struct {
	// TokenGenerator signs the tokens. Changing the key changes no token that
	// exists.
	TokenGenerator TokenGenerator
	// RootCA returns a PEM bundle by which clients recognise the API server. It
	// is kept up to date in every Secret, for which Enqueue has to be called when
	// it changes. When it is empty, Secrets keep the bundle that they have.
	RootCA func() []byte
}

// accountKey names a ServiceAccount and not a later one of the same name. An
// empty uid stands for whichever has the name.
type accountKey struct {
	cache.ObjectName
	uid types.UID
}

// secretKey names a token Secret. It also holds which ServiceAccount the
// Secret was for: when the Secret is gone, there is nothing left to ask.
type secretKey struct {
	cache.ObjectName
	uid     types.UID
	account accountKey
}

// NewTokensController returns a controller that reads the two informers, which
// the caller starts, and writes through client.
func NewTokensController(
	saInformer coreinformers.ServiceAccountInformer,
	secretInformer coreinformers.SecretInformer,
	client kubernetes.Interface,
	options TokensControllerOptions,
) *TokensController {
	c := &TokensController{
		client:        client,
		tokens:        options.TokenGenerator,
		rootCA:        options.RootCA,
		accountLister: saInformer.Lister(),
		secretLister:  secretInformer.Lister(),
	}
	c.accounts = controller.NewLoop(controller.LoopConfig[accountKey]{
		Name:       "serviceaccount-token-controller",
		QueueName:  "serviceaccount_tokens_service",
		Sync:       c.syncAccount,
		MaxRetries: controller.RetryForever,
	})
	c.secrets = controller.NewLoop(controller.LoopConfig[secretKey]{
		Name:       "serviceaccount-token-controller",
		QueueName:  "serviceaccount_tokens_secret",
		Sync:       c.syncSecret,
		MaxRetries: controller.RetryForever,
	})
	c.synced = []cache.InformerSynced{
		controller.Handle(saInformer.Informer(), c.accountHandlers()),
		controller.Handle(secretInformer.Informer(), c.secretHandlers()),
	}
	return c
}

// accountHandlers care for ServiceAccounts that go. The Secrets of one that
// comes or changes are the business of the other loop.
func (c *TokensController) accountHandlers() controller.Handlers[*corev1.ServiceAccount] {
	return controller.Handlers[*corev1.ServiceAccount]{
		Delete: func(account *corev1.ServiceAccount) {
			c.accounts.Add(accountKey{cache.MetaObjectToName(account), account.UID})
		},
	}
}

func (c *TokensController) secretHandlers() controller.Handlers[*corev1.Secret] {
	return controller.Handlers[*corev1.Secret]{
		Add:    c.secretChanged,
		Update: func(_, secret *corev1.Secret) { c.secretChanged(secret) },
		Delete: c.secretChanged,
	}
}

func (c *TokensController) secretChanged(secret *corev1.Secret) {
	account := accountOf(secret)
	if secret.Type == corev1.SecretTypeServiceAccountToken && account.Name != "" {
		c.secrets.Add(secretKey{cache.MetaObjectToName(secret), secret.UID, account})
	}
}

// Enqueue has every token Secret compared with the root CA.
func (c *TokensController) Enqueue() {
	secrets, err := c.secretLister.List(labels.Everything())
	if err != nil {
		return // the cache never fails
	}
	for _, secret := range secrets {
		c.secretChanged(secret)
	}
}

// accountOf returns which ServiceAccount a Secret is for, by its annotations.
// Whoever creates the Secret gives the name; the uid is written by the
// controller together with the token.
func accountOf(secret *corev1.Secret) accountKey {
	return accountKey{
		ObjectName: cache.NewObjectName(secret.Namespace, secret.Annotations[corev1.ServiceAccountNameKey]),
		uid:        types.UID(secret.Annotations[corev1.ServiceAccountUIDKey]),
	}
}

// Run works until ctx ends and the last worker has finished. Each of the two
// loops has as many workers as it says.
func (c *TokensController) Run(ctx context.Context, workers int) {
	var running sync.WaitGroup
	running.Go(func() { c.accounts.Run(ctx, workers, c.synced...) })
	running.Go(func() { c.secrets.Run(ctx, workers, c.synced...) })
	running.Wait()
}

// deleteSecret deletes this Secret and not a later one of the same name. An
// error has the key synced again that led here.
func (c *TokensController) deleteSecret(ctx context.Context, secret *corev1.Secret) error {
	klog.FromContext(ctx).V(4).Info("Deleting token, its service account does not exist", "secret", klog.KObj(secret))
	thisOne := *metav1.NewPreconditionDeleteOptions(string(secret.UID))
	err := c.client.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, thisOne)
	if err == nil || controller.IsGone(err) {
		return nil
	}
	return fmt.Errorf("delete token secret %s: %w", klog.KObj(secret), err)
}
