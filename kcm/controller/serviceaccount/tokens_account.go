package serviceaccount

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiserverserviceaccount "k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// syncAccount deletes the token Secrets that a ServiceAccount leaves, which was
// reported gone. It reads nothing but caches.
func (c *TokensController) syncAccount(ctx context.Context, key accountKey) error {
	seen, err := c.observeAccount(key)
	if err != nil {
		return err
	}
	return c.actOnAccount(ctx, decideAccount(key, seen))
}

// observedAccount is what is known of the name of a ServiceAccount that was
// reported gone.
type observedAccount struct {
	current *corev1.ServiceAccount // who has the name now, nil when nobody
	secrets []*corev1.Secret       // all of the namespace
}

// observeAccount returns what is there now.
func (c *TokensController) observeAccount(key accountKey) (seen observedAccount, err error) {
	seen.current, err = c.cachedAccount(accountKey{ObjectName: key.ObjectName})
	if err != nil {
		return seen, err
	}
	seen.secrets, err = c.secretLister.Secrets(key.Namespace).List(labels.Everything())
	if err != nil {
		return seen, fmt.Errorf("list secrets of namespace %s: %w", key.Namespace, err)
	}
	return seen, nil
}

// decideAccount returns the Secrets that go with the ServiceAccount called gone.
func decideAccount(gone accountKey, seen observedAccount) []*corev1.Secret {
	former := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: gone.Name, UID: gone.uid}}
	var orphans []*corev1.Secret
	for _, secret := range seen.secrets {
		// One that nobody has filled yet bears no uid and is for either.
		inUse := seen.current != nil && apiserverserviceaccount.IsServiceAccountToken(secret, seen.current)
		if apiserverserviceaccount.IsServiceAccountToken(secret, former) && !inUse {
			orphans = append(orphans, secret)
		}
	}
	return orphans
}

// actOnAccount deletes the Secrets.
func (c *TokensController) actOnAccount(ctx context.Context, orphans []*corev1.Secret) error {
	var errs []error
	for _, secret := range orphans {
		errs = append(errs, c.deleteSecret(ctx, secret))
	}
	return errors.Join(errs...)
}
