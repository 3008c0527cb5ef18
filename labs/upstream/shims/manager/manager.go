// Package manager stands for k8s.io/kubernetes/cmd/kube-controller-manager/app/testing. The suite that starts a manager
// has it run one loop, that for ClusterTrustBundles, and so here is no more than that.
package manager

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kcm-book/kcm-book/kcm/controller/trustbundle"
)

// account is the service account as which the loop works, so that RBAC has a say.
const account = "system:serviceaccount:kube-system:kube-apiserver-serving-clustertrustbundle-publisher"

// TestServer is the loop while it runs.
type TestServer struct {
	// TearDownFn stops it.
	TearDownFn func()
}

// StartTestServerOrDie runs kcm's loop. Of the flags it reads where the API server is, and what is to be published.
func StartTestServerOrDie(t *testing.T, ctx context.Context, flags []string) *TestServer {
	t.Helper()
	given := map[string]string{}
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, "=")
		given[name] = value
	}
	require.Equal(t, "kube-apiserver-serving-clustertrustbundle-publisher-controller", given["--controllers"],
		"labs/upstream/shims/manager has no other loop")
	rootCA, err := os.ReadFile(given["--root-ca-file"])
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", given["--kubeconfig"])
	require.NoError(t, err)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
	}
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)

	loop := trustbundle.New(client, func() []byte { return rootCA })
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); loop.Run(ctx, 1) }()
	return &TestServer{TearDownFn: func() { stop(); <-ended }}
}
