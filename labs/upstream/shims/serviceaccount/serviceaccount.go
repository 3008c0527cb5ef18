// Package serviceaccount stands for k8s.io/kubernetes/pkg/controller/serviceaccount.
package serviceaccount

import (
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller/serviceaccount"
)

// DefaultServiceAccountsControllerOptions is kcm's.
var DefaultServiceAccountsControllerOptions = serviceaccount.DefaultServiceAccountsControllerOptions

// NewServiceAccountsController returns kcm's loop.
func NewServiceAccountsController(
	_ klog.Logger,
	accounts coreinformers.ServiceAccountInformer,
	namespaces coreinformers.NamespaceInformer,
	client kubernetes.Interface,
	options serviceaccount.ServiceAccountsControllerOptions,
) (*serviceaccount.ServiceAccountsController, error) {
	return serviceaccount.NewServiceAccountsController(accounts, namespaces, client, options), nil
}

// TokensControllerOptions has what the suite sets.
type TokensControllerOptions struct {
	TokenGenerator serviceaccount.TokenGenerator
}

// NewTokensController returns kcm's loop, without a root CA.
func NewTokensController(
	_ klog.Logger,
	accounts coreinformers.ServiceAccountInformer,
	secrets coreinformers.SecretInformer,
	client kubernetes.Interface,
	options TokensControllerOptions,
) (*serviceaccount.TokensController, error) {
	return serviceaccount.NewTokensController(accounts, secrets, client, serviceaccount.TokensControllerOptions{
		TokenGenerator: options.TokenGenerator,
		RootCA:         func() []byte { return nil },
	}), nil
}
