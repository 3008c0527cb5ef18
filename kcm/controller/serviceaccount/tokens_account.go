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

// syncAccount cleans up after a ServiceAccount that was deleted.
func (c *TokensController) syncAccount(ctx context.Context, key accountKey) error {
	seen, err := c.observeAccount(key)
	if err != nil {
		return err
	}
	return c.actOnAccount(ctx, decideAccount(key, seen))
}

type observedAccount struct {
	current *corev1.ServiceAccount // who has the name now, nil when nobody
	secrets []*corev1.Secret       // all of the namespace
}

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

// decideAccount returns the token Secrets that were for the ServiceAccount
// called gone and are not for the one that has its name now. A Secret that
// nobody has filled yet bears no uid and is for either.
func decideAccount(gone accountKey, seen observedAccount) []*corev1.Secret {
	former := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: gone.Name, UID: gone.uid}}
	var orphans []*corev1.Secret
	for _, secret := range seen.secrets {
		inUse := seen.current != nil && apiserverserviceaccount.IsServiceAccountToken(secret, seen.current)
		if apiserverserviceaccount.IsServiceAccountToken(secret, former) && !inUse {
			orphans = append(orphans, secret)
		}
	}
	return orphans
}

func (c *TokensController) actOnAccount(ctx context.Context, orphans []*corev1.Secret) error {
	var errs []error
	for _, secret := range orphans {
		errs = append(errs, c.deleteSecret(ctx, secret))
	}
	return errors.Join(errs...)
}
