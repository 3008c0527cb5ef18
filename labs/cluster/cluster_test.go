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

// It runs before the tests that are parallel, one of which adds a node.
func TestNodesAreReadyAndWithoutTaintsAtOnce(t *testing.T) {
	nodes, err := clustertest.Client(t).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, nodes.Items, 3)
	for _, node := range nodes.Items {
		require.Empty(t, node.Spec.Taints, node.Name)
		require.Contains(t, fmt.Sprint(node.Status.Conditions), "KubeletReady", node.Name)
		_, err := clustertest.Client(t).CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(),
			node.Name, metav1.GetOptions{})
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
	clustertest.Eventually(t, "only its own taint is left", func(ctx context.Context) error {
		node, err := nodes.Get(ctx, "added", metav1.GetOptions{})
		if err == nil && (len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "example.com/mine") {
			err = fmt.Errorf("%v", node.Spec.Taints)
		}
		return err
	})
}

func TestSecretsAreForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	c := clustertest.Cluster(t)
	directory, err := os.Stat(c.Dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), directory.Mode().Perm())
	files := []string{c.ServiceAccountKey, c.NextServiceAccountKey, filepath.Join(c.Dir, "pki", "ca.key")}
	for _, user := range []cluster.User{cluster.Admin, cluster.KCM, cluster.Reference} {
		files = append(files, c.Kubeconfigs[user])
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
		self, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
			&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, "system:kube-controller-manager", self.Status.UserInfo.Username)
		require.Contains(t, self.Status.UserInfo.Groups, group)
		_, err = client.AppsV1().ReplicaSets("").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		err = client.CoreV1().Nodes().Delete(t.Context(), "node-1", metav1.DeleteOptions{})
		require.ErrorContains(t, err, "forbidden", "RBAC is on")
	}
}

func TestTheAdminIsTheOneThatKubeadmMakes(t *testing.T) {
	t.Parallel()
	self, err := clustertest.Client(t).AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, "kubernetes-admin", self.Status.UserInfo.Username)
	require.Contains(t, self.Status.UserInfo.Groups, "system:masters")
}

func TestTheAuditLogSaysWhoDidWhat(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	_, err := clustertest.ClientFor(t, cluster.KCM).CoreV1().Secrets(namespace).Get(t.Context(),
		"absent", metav1.GetOptions{})
	require.Error(t, err)
	// The event is there before the client has its answer, so there is nothing to wait for.
	events, err := clustertest.Cluster(t).AuditEvents(func(e *cluster.AuditEvent) bool {
		return e.ObjectRef.Namespace == namespace
	})
	require.NoError(t, err)
	require.NotEmpty(t, events)
	last := events[len(events)-1]
	require.Equal(t, "system:kube-controller-manager", last.User.Username)
	require.Contains(t, last.User.Groups, "kcm-book:kcm")
	require.Equal(t, "get", last.Verb)
	require.Equal(t, "secrets", last.ObjectRef.Resource)
	require.Equal(t, "absent", last.ObjectRef.Name)
	require.EqualValues(t, 404, last.ResponseStatus.Code)
	require.Equal(t, t.Name(), last.UserAgent)
	require.WithinDuration(t, time.Now(), last.RequestReceivedTimestamp.Time, time.Minute)
}

func TestDelegatedAuthenticationFindsTheClientCA(t *testing.T) {
	t.Parallel()
	config, err := clustertest.Client(t).CoreV1().ConfigMaps("kube-system").Get(t.Context(),
		"extension-apiserver-authentication", metav1.GetOptions{})
	require.NoError(t, err)
	ca, err := os.ReadFile(clustertest.Cluster(t).RootCA)
	require.NoError(t, err)
	require.Equal(t, string(ca), config.Data["client-ca-file"])
	require.NotEmpty(t, config.Data["requestheader-client-ca-file"])
}
