package serviceaccount_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

// defaultAccount waits until a namespace has a default ServiceAccount other
// than former.
func defaultAccount(t *testing.T, client kubernetes.Interface, namespace string, former types.UID) *corev1.ServiceAccount {
	t.Helper()
	var account *corev1.ServiceAccount
	clustertest.Eventually(t, fmt.Sprintf("namespace %s has a default service account", namespace), func(ctx context.Context) (bool, string, error) {
		var err error
		account, err = client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, "none", nil
		}
		return err == nil && account.UID != former, "the former one", err
	})
	return account
}

func deleteDefaultAccount(t *testing.T, client kubernetes.Interface, namespace string) {
	t.Helper()
	require.NoError(t, client.CoreV1().ServiceAccounts(namespace).Delete(t.Context(), "default", metav1.DeleteOptions{}))
}

func TestEveryNamespaceGetsADefaultServiceAccount(t *testing.T) {
	t.Parallel()
	client := clustertest.Client(t)
	for _, namespace := range []string{clustertest.BareNamespace(t), "default", "kube-system"} {
		account := defaultAccount(t, client, namespace, "")
		assert.Empty(t, account.Secrets, "no token Secret is made since Kubernetes 1.24")
	}
}

func TestADeletedDefaultServiceAccountComesBack(t *testing.T) {
	t.Parallel()
	client := clustertest.Client(t)
	namespace := clustertest.BareNamespace(t)
	first := defaultAccount(t, client, namespace, "")
	deleteDefaultAccount(t, client, namespace)
	defaultAccount(t, client, namespace, first.UID)
}

func TestATerminatingNamespaceIsLeftAlone(t *testing.T) {
	t.Parallel()
	client := clustertest.Client(t)
	namespace := clustertest.BareNamespace(t)
	defaultAccount(t, client, namespace, "")
	// No loop that empties namespaces runs here, so it stays Terminating.
	require.NoError(t, client.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}))

	// A watch keeps the order of things. When a later namespace has its
	// account, the deletion of the first is known; when a later account that
	// was deleted is back, the first one has been dealt with too.
	later := clustertest.BareNamespace(t)
	account := defaultAccount(t, client, later, "")
	deleteDefaultAccount(t, client, namespace)
	deleteDefaultAccount(t, client, later)
	defaultAccount(t, client, later, account.UID)

	created, err := clustertest.Cluster().AuditEvents(func(event cluster.AuditEvent) bool {
		return event.Namespace == namespace && event.Resource == "serviceaccounts" && event.Verb == "create"
	})
	require.NoError(t, err)
	var refused []cluster.AuditEvent
	for _, event := range created {
		if event.Code == http.StatusForbidden {
			refused = append(refused, event)
		}
	}
	assert.NotEmpty(t, created, "the audit log has the account's creation")
	assert.Empty(t, refused, "nothing was attempted after the deletion")
}
