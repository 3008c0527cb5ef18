package serviceaccount_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/keyutil"

	"github.com/kcm-book/kcm-book/kcm/controller/serviceaccount"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

func TestMain(m *testing.M) {
	clustertest.Main(m,
		clustertest.Loop{Name: "serviceaccount-controller", Start: startAccounts},
		clustertest.Loop{Name: "serviceaccount-token-controller", Start: func(ctx context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory) (func(context.Context), error) {
			return startTokens(ctx, client, informers, clustertest.Cluster(), clustertest.Cluster().ServiceAccountKeyFile())
		}},
	)
}

func startAccounts(_ context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory) (func(context.Context), error) {
	core := informers.Core().V1()
	c := serviceaccount.NewServiceAccountsController(core.ServiceAccounts(), core.Namespaces(), client, serviceaccount.DefaultServiceAccountsControllerOptions())
	// One worker, as in the original: tests rely on it that namespaces are
	// handled in their order.
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

func startTokens(ctx context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory, on cluster.Cluster, keyFile string) (func(context.Context), error) {
	key, err := keyutil.PrivateKeyFromFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("read service account key: %w", err)
	}
	generator, err := serviceaccount.NewTokenGenerator(key)
	if err != nil {
		return nil, err
	}
	rootCA, err := os.ReadFile(on.RootCAFile())
	if err != nil {
		return nil, err
	}
	core := informers.Core().V1()
	c := serviceaccount.NewTokensController(core.ServiceAccounts(), core.Secrets(), client,
		serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: rootCA})
	return func(ctx context.Context) { c.Run(ctx, 2) }, nil
}
