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

// syncAccount deletes the token Secrets that were filled for a ServiceAccount which
// was reported gone. It reads nothing but caches.
func (c *TokensController) syncAccount(ctx context.Context, key accountKey) error {
	seen, err := c.observeAccount(key)
	if err != nil {
		return err
	}
	return c.actOnAccount(ctx, decideAccount(key, seen))
}

// observedAccount is what is known of a ServiceAccount that was reported gone.
type observedAccount struct {
	account *corev1.ServiceAccount // nil, unless the report was wrong
	secrets []*corev1.Secret       // all of the namespace
}

// observeAccount returns what is there now.
func (c *TokensController) observeAccount(key accountKey) (seen observedAccount, err error) {
	seen.account, err = c.cachedAccount(key)
	if err != nil {
		return seen, err
	}
	seen.secrets, err = c.secretLister.Secrets(key.Namespace).List(labels.Everything())
	if err != nil {
		return seen, fmt.Errorf("list secrets of namespace %s: %w", key.Namespace, err)
	}
	return seen, nil
}

// decideAccount returns the Secrets that have to be seen to, since the ServiceAccount
// called gone may have left them.
func decideAccount(gone accountKey, seen observedAccount) []*corev1.Secret {
	if seen.account != nil {
		return nil
	}
	former := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: gone.Name, UID: gone.uid}}
	var left []*corev1.Secret
	for _, secret := range seen.secrets {
		if apiserverserviceaccount.IsServiceAccountToken(secret, former) {
			left = append(left, secret)
		}
	}
	return left
}

// actOnAccount sees to these Secrets. None is lost that a present account uses, or
// will use once the Secret is filled.
func (c *TokensController) actOnAccount(ctx context.Context, left []*corev1.Secret) error {
	var errs []error
	for _, secret := range left {
		if accountOf(secret).uid == "" {
			c.secretChanged(secret)
			continue
		}
		errs = append(errs, c.deleteSecret(ctx, secret))
	}
	return errors.Join(errs...)
}
