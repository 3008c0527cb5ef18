package serviceaccount

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// syncSecret brings one token Secret, or what is left of it, in order.
func (c *TokensController) syncSecret(ctx context.Context, key secretKey) error {
	seen, err := c.observeSecret(ctx, key)
	if err != nil {
		return err
	}
	return c.actOnSecret(ctx, decideSecret(seen, c.rootCA()))
}

type observedSecret struct {
	name    string                 // the key's, also when the Secret is gone
	secret  *corev1.Secret         // nil when it is gone
	account *corev1.ServiceAccount // nil when it is gone
}

// observeSecret returns the Secret that key means and the ServiceAccount that
// it is for, each nil if it is gone. It asks the API server only where a cache that
// is behind would lead to something that no later event puts right.
func (c *TokensController) observeSecret(ctx context.Context, key secretKey) (observedSecret, error) {
	seen := observedSecret{name: key.Name}
	secret, err := c.secretLister.Secrets(key.Namespace).Get(key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return seen, fmt.Errorf("look up token secret %s: %w", key, err)
	}
	owner := key.account
	if err == nil && secret.UID == key.uid {
		seen.secret = secret
		owner = accountOf(secret)
	}
	cached, err := c.cachedAccount(owner)
	if err != nil {
		return seen, err
	}
	if seen.secret != nil && cached != nil && owner.uid != "" {
		seen.account = cached
		return seen, nil
	}
	seen.account, err = c.liveAccount(ctx, owner)
	return seen, err
}

// cachedAccount returns nil when the cache holds no such ServiceAccount.
func (c *TokensController) cachedAccount(key accountKey) (*corev1.ServiceAccount, error) {
	return key.of(c.accountLister.ServiceAccounts(key.Namespace).Get(key.Name))
}

// liveAccount returns nil when the API server has no such ServiceAccount.
func (c *TokensController) liveAccount(ctx context.Context, key accountKey) (*corev1.ServiceAccount, error) {
	if !controller.CanBeName(key.Name) {
		return nil, nil // an annotation may be any text
	}
	return key.of(c.client.CoreV1().ServiceAccounts(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{}))
}

// of makes nil of a ServiceAccount that is not there or that the key does not mean.
func (k accountKey) of(account *corev1.ServiceAccount, err error) (*corev1.ServiceAccount, error) {
	switch {
	case controller.IsGone(err), k.Name == "", err == nil && k.uid != "" && k.uid != account.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look up service account %s: %w", k, err)
	}
	return account, nil
}

// secretPlan is what is to be done about one token Secret: at most one of the
// three.
type secretPlan struct {
	// delete is a Secret that nobody can use.
	delete *corev1.Secret
	// update is a Secret as it should be. If sign is not nil, a fresh token of
	// that ServiceAccount is to be added.
	update *corev1.Secret
	sign   *corev1.ServiceAccount
	// unlink is a ServiceAccount as it should be: without the Secret.
	unlink *corev1.ServiceAccount
}

// decideSecret compares a token Secret with what its ServiceAccount and the
// root CA say that it should be.
func decideSecret(seen observedSecret, rootCA []byte) secretPlan {
	switch {
	case seen.secret == nil && seen.account == nil:
		return secretPlan{}
	case seen.secret == nil:
		return secretPlan{unlink: withoutReference(seen.account, seen.name)}
	case seen.account == nil:
		return secretPlan{delete: seen.secret}
	default:
		return fill(seen.secret, seen.account, rootCA)
	}
}

// withoutReference returns account without the Secret of that name in its
// list, or nil when the list does not have it.
func withoutReference(account *corev1.ServiceAccount, name string) *corev1.ServiceAccount {
	refersTo := func(ref corev1.ObjectReference) bool { return ref.Name == name }
	if !slices.ContainsFunc(account.Secrets, refersTo) {
		return nil
	}
	account = account.DeepCopy()
	account.Secrets = slices.DeleteFunc(account.Secrets, refersTo)
	return account
}

// fill plans what secret lacks to be a token of account: at most an update, and
// a signature for it. A token that is there is never replaced.
func fill(secret *corev1.Secret, account *corev1.ServiceAccount, rootCA []byte) secretPlan {
	needsCA := len(rootCA) > 0 && !bytes.Equal(secret.Data[corev1.ServiceAccountRootCAKey], rootCA)
	needsNamespace := len(secret.Data[corev1.ServiceAccountNamespaceKey]) == 0
	needsToken := len(secret.Data[corev1.ServiceAccountTokenKey]) == 0
	if !needsCA && !needsNamespace && !needsToken {
		return secretPlan{}
	}
	secret = secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if needsCA {
		secret.Data[corev1.ServiceAccountRootCAKey] = rootCA
	}
	if needsNamespace {
		secret.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, corev1.ServiceAccountNameKey, account.Name)
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, corev1.ServiceAccountUIDKey, string(account.UID))
	if !needsToken {
		return secretPlan{update: secret}
	}
	return secretPlan{update: secret, sign: account}
}

func (c *TokensController) actOnSecret(ctx context.Context, plan secretPlan) error {
	switch {
	case plan.delete != nil:
		return c.deleteSecret(ctx, plan.delete)
	case plan.update != nil:
		return c.updateSecret(ctx, plan.update, plan.sign)
	case plan.unlink != nil:
		return c.updateAccount(ctx, plan.unlink)
	}
	return nil
}

// updateSecret writes secret, with a fresh token for account if that is not
// nil. An immutable one stays as it is. An error has the Secret's key synced again.
func (c *TokensController) updateSecret(ctx context.Context, secret *corev1.Secret, account *corev1.ServiceAccount) error {
	if ptr.Deref(secret.Immutable, false) {
		klog.FromContext(ctx).Info("A token secret lacks something and is immutable; delete it and create another",
			"secret", klog.KObj(secret)) // the API server would refuse it for ever
		return nil
	}
	if account != nil {
		token, err := c.tokens.GenerateToken(account, secret)
		if err != nil {
			return fmt.Errorf("fill token secret %s: %w", klog.KObj(secret), err)
		}
		secret.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	_, err := c.client.CoreV1().Secrets(secret.Namespace).Update(ctx, secret, metav1.UpdateOptions{})
	if err == nil || controller.IsGone(err) {
		return nil
	}
	return fmt.Errorf("update token secret %s: %w", klog.KObj(secret), err)
}

// updateAccount writes account, whose list is without the deleted Secret. An
// error has that Secret's key synced again.
func (c *TokensController) updateAccount(ctx context.Context, account *corev1.ServiceAccount) error {
	_, err := c.client.CoreV1().ServiceAccounts(account.Namespace).Update(ctx, account, metav1.UpdateOptions{})
	if err == nil || controller.IsGone(err) {
		return nil
	}
	return fmt.Errorf("take a deleted secret out of service account %s: %w", klog.KObj(account), err)
}
