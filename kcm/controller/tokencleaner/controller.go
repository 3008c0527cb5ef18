// Package tokencleaner deletes bootstrap tokens that have run out. With such a
// token, a Secret in kube-system, a new node asks for its first certificate
// (kubeadm join).
package tokencleaner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// expirationKey is where a bootstrap token says until when it is good, as
// RFC 3339 writes a time.
const expirationKey = "expiration"

// Reads is what the loop reads of Secrets.
var Reads = []*controller.Keep{
	controller.KeepOf(func(kept, whole *corev1.Secret) {
		if whole.Type == corev1.SecretTypeBootstrapToken {
			kept.Data = whole.Data
		}
	}),
}

// Controller deletes each Secret of the type bootstrap.kubernetes.io/token in
// kube-system as soon as the time in its data, under "expiration", has come.
type Controller struct {
	secrets corev1client.SecretInterface
	cached  corelisters.SecretNamespaceLister
	synced  cache.InformerSynced
	loop    *controller.Loop[string]
}

// New returns a controller that watches Secrets with the informer, which the
// caller starts, and deletes them through client. It sends no request yet.
func New(client kubernetes.Interface, secretInformer coreinformers.SecretInformer) *Controller {
	c := &Controller{
		secrets: client.CoreV1().Secrets(metav1.NamespaceSystem),
		cached:  secretInformer.Lister().Secrets(metav1.NamespaceSystem),
	}
	c.loop = controller.NewLoop(controller.LoopConfig[string]{
		Name:       "token-cleaner-controller",
		QueueName:  "token_cleaner",
		Sync:       c.sync,
		MaxRetries: controller.RetryForever,
	})
	c.synced = controller.Handle(secretInformer.Informer(), controller.Handlers[*corev1.Secret]{
		Add:    c.changed,
		Update: func(_, secret *corev1.Secret) { c.changed(secret) },
	})
	return c
}

func (c *Controller) changed(secret *corev1.Secret) {
	if secret.Namespace == metav1.NamespaceSystem && secret.Type == corev1.SecretTypeBootstrapToken {
		c.loop.Add(secret.Name)
	}
}

// Run waits until the cache is filled and then works, as many tokens at a time
// as there are workers, until ctx ends and the last worker has finished. A
// deletion that fails is tried again, ever less often. That a Secret is gone,
// or that another has its name by now, is no failure.
func (c *Controller) Run(ctx context.Context, workers int) {
	c.loop.Run(ctx, workers, c.synced)
}

// sync deletes a token that has run out, and has one whose time is still to come
// looked at again then. By then it may say another time, or be another Secret.
func (c *Controller) sync(ctx context.Context, name string) error {
	secret, err := c.cached.Get(name)
	if err != nil {
		return nil // it is gone: a cache has no other error
	}
	at, ok := deadline(secret)
	if !ok {
		return nil
	}
	if left := time.Until(at); left > 0 {
		c.loop.AddAfter(name, left)
		return nil
	}
	return c.delete(ctx, secret)
}

// deadline returns when a Secret is to be deleted. It is not ok for one that is
// no token, or a token for ever. What is no time reads as the year 1, so a token
// that says it has run out.
func deadline(secret *corev1.Secret) (at time.Time, ok bool) {
	expiration := string(secret.Data[expirationKey])
	if secret.Type != corev1.SecretTypeBootstrapToken || expiration == "" {
		return time.Time{}, false
	}
	at, _ = time.Parse(time.RFC3339, expiration) // what cannot be parsed is the zero time
	return at, true
}

// delete deletes the Secret as it was looked at: no other of its name, and none
// that was written since. If the cache does not show it as it is now, the deletion
// is refused, and the Secret is looked at again.
func (c *Controller) delete(ctx context.Context, secret *corev1.Secret) error {
	err := c.secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion},
	})
	if controller.IsGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete secret %s: %w", klog.KObj(secret), err)
	}
	klog.FromContext(ctx).V(3).Info("Bootstrap token has run out and was deleted", "secret", klog.KObj(secret))
	return nil
}
