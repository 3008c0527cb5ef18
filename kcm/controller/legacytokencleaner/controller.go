// Package legacytokencleaner takes tokens out of use that nobody uses. Until Kubernetes 1.24 the
// control plane made a Secret with a token for every ServiceAccount, and each of them is good for
// ever. The API server notes in a label on which day a token was last used, and this loop takes
// back, in two steps, what has not been used for long (https://kep.k8s.io/2799):
//
//   - a token that was not used for the period is marked as invalid. The API server refuses it
//     from then on, and goes on to note its use. A user can take the mark off again;
//   - one that has been marked for the period, and was not used for the period, is deleted.
//
// It is only about tokens that their ServiceAccount lists, as it listed those that were made for
// it, and that no pod names. A token that a user has made for an account stays.
package legacytokencleaner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// interval is the time between two looks at a token, and from a change of it to the next look at the
// latest. Nothing here is urgent, and a user who takes off the mark is to have some time to use the
// token: by its use it is kept.
const interval = 24 * time.Hour

// Controller marks and deletes tokens.
type Controller struct {
	client   kubernetes.Interface
	clock    clock.PassiveClock
	period   time.Duration
	tracking *tracking

	accounts  corelisters.ServiceAccountLister
	secrets   corelisters.SecretLister
	isMounted func(secret *corev1.Secret) bool
	writes    *controller.OwnWrites
	synced    []cache.InformerSynced
	loop      *controller.Loop[cache.ObjectName]
}

// New returns a controller for which a token is unused that was not used for cleanUpPeriod, which
// is more than zero. It reads the three informers, which the caller starts, and adds an index to
// that of pods. It reads one ConfigMap and writes Secrets through client, and sends no request yet.
func New(
	saInformer coreinformers.ServiceAccountInformer,
	secretInformer coreinformers.SecretInformer,
	podInformer coreinformers.PodInformer,
	client kubernetes.Interface,
	cleanUpPeriod time.Duration,
) *Controller {
	return newController(clock.RealClock{}, saInformer, secretInformer, podInformer, client, cleanUpPeriod)
}

func newController(
	clock clock.PassiveClock,
	saInformer coreinformers.ServiceAccountInformer,
	secretInformer coreinformers.SecretInformer,
	podInformer coreinformers.PodInformer,
	client kubernetes.Interface,
	cleanUpPeriod time.Duration,
) *Controller {
	c := &Controller{
		client:    client,
		clock:     clock,
		period:    cleanUpPeriod,
		tracking:  &tracking{configMaps: client.CoreV1().ConfigMaps(metav1.NamespaceSystem)},
		accounts:  saInformer.Lister(),
		secrets:   secretInformer.Lister(),
		isMounted: mounts(podInformer.Informer()),
		writes:    controller.NewOwnWrites(secretInformer.Informer().GetStore()),
	}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       "legacy-serviceaccount-token-cleaner-controller",
		QueueName:  "legacy_service_account_token_cleaner",
		Sync:       c.sync,
		MaxRetries: controller.RetryForever,
		// Nothing is urgent, and what is refused for one token may be for thousands.
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](time.Minute, interval),
	})
	c.watch(saInformer.Informer(), secretInformer.Informer())
	c.synced = append(c.synced, podInformer.Informer().HasSynced)
	return c
}

// watch has a token looked at when it comes, and a day after it has changed or its ServiceAccount lists
// it from now on: whoever has done that may be about to use it. No pod wakes this loop. When a pod goes is the worst of moments to ask
// whether its token is in use: a StatefulSet has deleted web-0, and is about to create it again.
func (c *Controller) watch(accounts, secrets cache.SharedIndexInformer) {
	listed := func(old, account *corev1.ServiceAccount) {
		for name := range listedBy(account).Difference(listedBy(old)) {
			c.loop.AddAfter(cache.NewObjectName(account.Namespace, name), interval)
		}
	}
	c.synced = append(c.synced,
		controller.Handle(accounts, controller.Handlers[*corev1.ServiceAccount]{
			Add:    func(account *corev1.ServiceAccount) { listed(&corev1.ServiceAccount{}, account) },
			Update: listed,
		}),
		controller.Handle(secrets, controller.Handlers[*corev1.Secret]{
			Add: func(secret *corev1.Secret) {
				if secret.Type == corev1.SecretTypeServiceAccountToken {
					c.loop.Add(cache.MetaObjectToName(secret))
				}
			},
			Update: func(_, secret *corev1.Secret) {
				if secret.Type == corev1.SecretTypeServiceAccountToken {
					c.loop.AddAfter(cache.MetaObjectToName(secret), interval)
				}
			},
		}),
	)
}

func listedBy(account *corev1.ServiceAccount) sets.Set[string] {
	names := sets.New[string]()
	for _, ref := range account.Secrets {
		names.Insert(ref.Name)
	}
	return names
}

// Run waits until the caches are filled, looks at all tokens, and then once a day at each that it
// is about, until ctx ends and the last worker has finished. What fails is tried again, ever less
// often.
func (c *Controller) Run(ctx context.Context, workers int) {
	c.loop.Run(ctx, workers, c.synced...)
}

// sync looks at a token. One that is none of its business it does not look at again, until a
// change of the Secret or of its ServiceAccount makes it so.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	if err := c.writes.Observed(key); err != nil {
		return err
	}
	secret, err := c.secrets.Secrets(key.Namespace).Get(key.Name)
	if err != nil {
		c.writes.Forget(key)
		return nil // it is gone: a cache has no other error
	}
	seen := c.observe(secret)
	if !seen.listed {
		return nil
	}
	now := c.clock.Now()
	if todo := decide(seen, c.period, now); todo != leave {
		known, err := c.tracking.covers(ctx, now.Add(-c.period), now)
		if err != nil {
			return fmt.Errorf("find out for how long the use of tokens has been noted: %w", err)
		}
		if known {
			if err := c.act(ctx, secret, todo, now); err != nil && !controller.IsGone(err) {
				return err
			}
		}
	}
	c.loop.AddAfter(key, interval)
	return nil
}

// observe returns what counts about a token, as the caches have it.
func (c *Controller) observe(secret *corev1.Secret) token {
	return token{
		Secret:  secret,
		listed:  secret.Type == corev1.SecretTypeServiceAccountToken && c.isListed(secret),
		mounted: c.isMounted(secret),
	}
}

// isListed tells whether the ServiceAccount that a Secret is for lists it.
func (c *Controller) isListed(secret *corev1.Secret) bool {
	name, uid := secret.Annotations[corev1.ServiceAccountNameKey], secret.Annotations[corev1.ServiceAccountUIDKey]
	account, err := c.accounts.ServiceAccounts(secret.Namespace).Get(name)
	if err != nil || uid != "" && uid != string(account.UID) {
		return false
	}
	return slices.ContainsFunc(account.Secrets, func(ref corev1.ObjectReference) bool { return ref.Name == secret.Name })
}

// act marks or deletes a token as it was looked at: none that was written since, for it may have
// been used since. The mark is a harm that nothing would undo.
func (c *Controller) act(ctx context.Context, secret *corev1.Secret, todo verdict, now time.Time) (err error) {
	if todo == remove {
		err = c.remove(ctx, secret)
	} else {
		err = c.invalidate(ctx, secret, now.UTC().Format(time.DateOnly))
	}
	if controller.HasChanged(err) {
		return nil // it was written since: as after any change, tomorrow is soon enough
	}
	return err
}

func (c *Controller) invalidate(ctx context.Context, secret *corev1.Secret, today string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": secret.UID, "resourceVersion": secret.ResourceVersion,
		"labels": map[string]string{invalidSinceLabel: today},
	}})
	if err != nil {
		return fmt.Errorf("mark secret %s as invalid: %w", klog.KObj(secret), err)
	}
	marked, err := c.client.CoreV1().Secrets(secret.Namespace).Patch(ctx, secret.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("mark secret %s as invalid: %w", klog.KObj(secret), err)
	}
	c.writes.Wrote(cache.MetaObjectToName(secret), marked.ResourceVersion)
	klog.FromContext(ctx).Info("Nobody uses this token of a service account, and it was marked as invalid",
		"secret", klog.KObj(secret), "invalidSince", today)
	return nil
}

func (c *Controller) remove(ctx context.Context, secret *corev1.Secret) error {
	err := c.client.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion},
	})
	if err != nil {
		return fmt.Errorf("delete secret %s: %w", klog.KObj(secret), err)
	}
	klog.FromContext(ctx).Info("Nobody uses this token of a service account, and it was deleted", "secret", klog.KObj(secret),
		"creationTime", secret.CreationTimestamp, "lastUsed", secret.Labels[lastUsedLabel], "invalidSince", secret.Labels[invalidSinceLabel])
	return nil
}
