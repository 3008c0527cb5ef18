package cluster_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

func TestServerReportsTheReleaseItIsBuiltFrom(t *testing.T) {
	t.Parallel()
	version, err := clustertest.Client(t).Discovery().ServerVersion()
	require.NoError(t, err)
	require.Equal(t, "v1.36.3", version.GitVersion)
	require.Equal(t, "1", version.Major)
	require.Equal(t, "36", version.Minor)
}

func TestNodesAreReadyAndWithoutTaintsAtOnce(t *testing.T) {
	t.Parallel()
	nodes, err := clustertest.Client(t).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, nodes.Items, 3)
	for _, node := range nodes.Items {
		require.Empty(t, node.Spec.Taints, node.Name)
		require.Contains(t, fmt.Sprint(node.Status.Conditions), "KubeletReady", node.Name)
		_, err := clustertest.Client(t).CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), node.Name, metav1.GetOptions{})
		require.NoError(t, err, "a node's heartbeat is its Lease")
	}
}

func TestANodeThatIsAddedLaterIsReadyToo(t *testing.T) {
	t.Parallel()
	nodes := clustertest.Client(t).CoreV1().Nodes()
	added := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "added"}}
	// Pods of other tests are not to land on it.
	added.Spec.Taints = []corev1.Taint{{Key: "example.com/mine", Effect: corev1.TaintEffectNoSchedule}}
	_, err := nodes.Create(t.Context(), added, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, nodes.Delete(context.Background(), "added", metav1.DeleteOptions{})) })
	clustertest.Eventually(t, "only its own taint is left", func(ctx context.Context) (bool, string, error) {
		node, err := nodes.Get(ctx, "added", metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return len(node.Spec.Taints) == 1 && node.Spec.Taints[0].Key == "example.com/mine", fmt.Sprint(node.Spec.Taints), nil
	})
}

func TestSecretsAreForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	c := clustertest.Cluster()
	directory, err := os.Stat(c.Dir())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), directory.Mode().Perm())
	files := []string{c.ServiceAccountKeyFile(), c.NextServiceAccountKeyFile(), filepath.Join(c.Dir(), "pki", "ca.key")}
	for _, user := range []cluster.User{cluster.Admin, cluster.KCM, cluster.Reference} {
		files = append(files, c.Kubeconfig(user))
	}
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file)
	}
}

func TestBothControllerManagersAreTheUserThatRBACKnowsButInOtherGroups(t *testing.T) {
	t.Parallel()
	groups := map[cluster.User]string{cluster.KCM: "kcm-book:kcm", cluster.Reference: "kcm-book:reference"}
	for user, group := range groups {
		client := clustertest.ClientFor(t, user)
		self, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, "system:kube-controller-manager", self.Status.UserInfo.Username)
		require.Contains(t, self.Status.UserInfo.Groups, group)
		_, err = client.AppsV1().ReplicaSets("").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		err = client.CoreV1().Nodes().Delete(t.Context(), "node-1", metav1.DeleteOptions{})
		require.ErrorContains(t, err, "forbidden", "RBAC is on")
	}
}

func TestTheAuditLogSaysWhoDidWhat(t *testing.T) {
	t.Parallel()
	namespace := clustertest.Namespace(t)
	_, err := clustertest.ClientFor(t, cluster.KCM).CoreV1().Secrets(namespace).Get(t.Context(), "absent", metav1.GetOptions{})
	require.Error(t, err)
	// The event is there before the client has its answer, so there is nothing to wait for.
	events, err := clustertest.Cluster().AuditEvents(func(e cluster.AuditEvent) bool { return e.Namespace == namespace })
	require.NoError(t, err)
	require.NotEmpty(t, events)
	last := events[len(events)-1]
	require.Equal(t, "system:kube-controller-manager", last.User)
	require.Contains(t, last.Groups, "kcm-book:kcm")
	require.Equal(t, "get", last.Verb)
	require.Equal(t, "secrets", last.Resource)
	require.Equal(t, "absent", last.Name)
	require.Equal(t, 404, last.Code)
	require.Equal(t, t.Name(), last.UserAgent)
	require.WithinDuration(t, time.Now(), last.Time, time.Minute)
}

func TestDelegatedAuthenticationFindsTheClientCA(t *testing.T) {
	t.Parallel()
	config, err := clustertest.Client(t).CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	require.NoError(t, err)
	ca, err := os.ReadFile(clustertest.Cluster().RootCAFile())
	require.NoError(t, err)
	require.Equal(t, string(ca), config.Data["client-ca-file"])
	require.NotEmpty(t, config.Data["requestheader-client-ca-file"])
}

func TestClustersRunSideBySideAndTheReferenceRunsOnOne(t *testing.T) {
	t.Parallel()
	other := start(t, cluster.WithNodes(1))
	require.NotEqual(t, clustertest.Cluster().Server(), other.Server())

	ctx, cancel := context.WithCancel(t.Context())
	reference := other.Reference(ctx, "--controllers=serviceaccount-controller", "--leader-elect=false")
	require.NoError(t, reference.Start())
	t.Cleanup(func() { cancel(); _ = reference.Wait() })

	client := clientOf(t, other)
	clustertest.Eventually(t, "the original has created the default ServiceAccount", func(ctx context.Context) (bool, string, error) {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err), nil
	})
	events, err := other.AuditEvents(func(e cluster.AuditEvent) bool {
		return e.Verb == "create" && e.Resource == "serviceaccounts" && e.Namespace == "default"
	})
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:kube-system:service-account-controller", events[0].User)
	_, err = clustertest.Client(t).CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
	require.ErrorContains(t, err, "not found", "the other cluster is another one")
}

// These change the environment, so they run before the tests that run in parallel.
func TestRunningIsTheClusterOfMakesDirectory(t *testing.T) {
	t.Setenv("CLUSTER", "")
	t.Setenv("LABCLUSTER_DIR", clustertest.Cluster().Dir())
	c, err := cluster.Running()
	require.NoError(t, err)
	require.Equal(t, clustertest.Cluster().Server(), c.Server())
	require.NoError(t, c.Close())
	_, err = clustertest.Client(t).CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
	require.NoError(t, err, "closing leaves it running")

	t.Setenv("LABCLUSTER_DIR", filepath.Join(t.TempDir(), "none"))
	_, err = cluster.Running()
	require.ErrorIs(t, err, cluster.ErrNotRunning)
}

func TestAMistypedClusterIsRefusedAndNeverTheEmbeddedOne(t *testing.T) {
	t.Setenv("CLUSTER", "knid")
	t.Setenv("LABCLUSTER_DIR", clustertest.Cluster().Dir())
	_, err := cluster.Start(t.Context())
	require.EqualError(t, err, `CLUSTER is "knid": set it to embedded or kind, or to nothing, which means embedded`)
	_, err = cluster.Running()
	require.EqualError(t, err, `CLUSTER is "knid": set it to embedded or kind, or to nothing, which means embedded`)

	t.Setenv("CLUSTER", "kind")
	_, err = cluster.Running()
	require.ErrorContains(t, err, "not a kind cluster's directory")
	require.True(t, cluster.OnKind())
}
