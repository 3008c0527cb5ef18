package main_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	sigskind "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"

	"github.com/kcm-book/kcm-book/labs/await"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

// childVariable makes the test binary a program that starts a cluster and waits, so that a test can kill it.
const childVariable = "CLUSTER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	c, err := cluster.Start(context.Background(), cluster.Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(c.Dir)
	select {}
}

// onKind skips a test that creates kind clusters, unless that is asked for.
func onKind(t *testing.T) {
	t.Helper()
	if !cluster.OnKind() {
		t.Skip("it creates a kind cluster, which takes half a minute: run it with CLUSTER=kind")
	}
}

// skipWithoutEngine skips the test if that is why Start has failed.
func skipWithoutEngine(t *testing.T, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), "CLUSTER=kind needs a container engine") {
		t.Skipf("NOT TESTED ON KIND: %v", err)
	}
}

// TestKind has its parts share a cluster.
func TestKind(t *testing.T) {
	onKind(t)
	c, err := cluster.Start(t.Context(), cluster.Options{Progress: t.Output()})
	skipWithoutEngine(t, err)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	config := c.RESTConfig(cluster.Admin)
	config.Timeout = 2 * time.Second // a server that is frozen accepts connections and never answers
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	for _, part := range []struct {
		name string
		test func(*testing.T, *cluster.Cluster, kubernetes.Interface)
	}{
		{"no controller manager runs and its Lease is free", noControllerManagerRuns},
		{"the users are those of the embedded cluster", usersAreTheEmbeddedOnes},
		{"the audit log is on the host", auditLogIsOnTheHost},
		{"the original mints tokens with either key", referenceMintsTokensWithEitherKey},
		{"containers do what their flags say", containersObeyFlags},
		{"the cluster of a killed process is removed, and no other", orphansAreRemoved},
		{"components die and come back", componentsDieAndComeBack},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, c, client) })
	}
}

func noControllerManagerRuns(t *testing.T, _ *cluster.Cluster, client kubernetes.Interface) {
	_, err := client.CoordinationV1().Leases("kube-system").Get(t.Context(),
		"kube-controller-manager", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), err)
	// The kubelet tells of it later than it happens.
	clustertest.Eventually(t, "the kubelet has taken back its pod", func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods("kube-system").List(ctx,
			metav1.ListOptions{LabelSelector: "component=kube-controller-manager"})
		if err == nil && len(pods.Items) > 0 {
			err = errors.New("it is there")
		}
		return err
	})
	dns, err := client.AppsV1().Deployments("kube-system").Get(t.Context(), "coredns", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, *dns.Spec.Replicas, dns.Status.AvailableReplicas, "DNS is up")
}

func usersAreTheEmbeddedOnes(t *testing.T, c *cluster.Cluster, _ kubernetes.Interface) {
	for user, is := range map[cluster.User]struct{ name, group string }{
		cluster.Admin:     {"kubernetes-admin", "system:masters"},
		cluster.KCM:       {"system:kube-controller-manager", "kcm-book:kcm"},
		cluster.Reference: {"system:kube-controller-manager", "kcm-book:reference"},
	} {
		self := whoIs(t, c.RESTConfig(user))
		require.Equal(t, is.name, self.Username)
		require.Contains(t, self.Groups, is.group)
		info, err := os.Stat(c.Kubeconfigs[user])
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
}

// whoIs returns who the API server takes a client for.
func whoIs(t *testing.T, config *rest.Config) authenticationv1.UserInfo {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	self, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return self.Status.UserInfo
}

func auditLogIsOnTheHost(t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	_, err := client.CoreV1().Secrets("default").Get(t.Context(), "absent", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err))
	events, err := c.AuditEvents(func(e *cluster.AuditEvent) bool { return e.ObjectRef.Name == "absent" })
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Equal(t, "kubernetes-admin", events[0].User.Username)
	require.EqualValues(t, 404, events[0].ResponseStatus.Code)
	noise, err := c.AuditEvents(func(e *cluster.AuditEvent) bool {
		return e.Verb == "watch" || strings.HasPrefix(e.User.Username, "system:node:") && e.ObjectRef.Resource == "leases"
	})
	require.NoError(t, err)
	require.Empty(t, noise, "the policy is that of the embedded cluster")
}

// The original mints the tokens, so this is its test on kind too.
func referenceMintsTokensWithEitherKey(t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	for name, key := range map[string]string{"first": c.ServiceAccountKey, "next": c.NextServiceAccountKey} {
		ctx, cancel := context.WithCancel(t.Context())
		reference := c.Reference(ctx, "--controllers=serviceaccount-token-controller", "--leader-elect=false",
			"--service-account-private-key-file="+key)
		require.NoError(t, reference.Start())
		token := waitForToken(t, client, name)
		cancel()
		_ = reference.Wait()

		config := rest.AnonymousClientConfig(c.RESTConfig(cluster.Admin))
		config.BearerToken = token
		require.Equal(t, "system:serviceaccount:default:default", whoIs(t, config).Username, "the %s key", name)
	}
	minted, err := c.AuditEvents(func(e *cluster.AuditEvent) bool {
		reference := slices.Contains(e.User.Groups, "kcm-book:reference")
		return reference && e.Verb == "update" && e.ObjectRef.Resource == "secrets"
	})
	require.NoError(t, err)
	require.Len(t, minted, 2, "the tokens loop works as the controller manager itself")
}

// waitForToken creates a Secret for a token of the account default, and returns the token.
func waitForToken(t *testing.T, client kubernetes.Interface, name string) string {
	t.Helper()
	secret := &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"},
	}}
	_, err := client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)
	var token string
	clustertest.Eventually(t, "the Secret has a token", func(ctx context.Context) error {
		secret, err := client.CoreV1().Secrets("default").Get(ctx, name, metav1.GetOptions{})
		if token = string(secret.Data[corev1.ServiceAccountTokenKey]); err == nil && token == "" {
			err = errors.New("none yet")
		}
		return err
	})
	return token
}

// flagged is a pod of web with these flags, and with the probe that makes --ready-after count.
func flagged(name string, flags ...string) *corev1.Pod {
	probe := &corev1.Probe{PeriodSeconds: 1}
	probe.HTTPGet = &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1",
			Args: flags, ReadinessProbe: probe}}},
	}
}

func containersObeyFlags(t *testing.T, _ *cluster.Cluster, client kubernetes.Interface) {
	pods := client.CoreV1().Pods("default")
	until := func(name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
		t.Helper()
		var pod *corev1.Pod
		what = "pod " + name + " " + what
		require.NoError(t, await.Until(t.Context(), time.Second/5, time.Minute, what, func(ctx context.Context) (err error) {
			if pod, err = pods.Get(ctx, name, metav1.GetOptions{}); err == nil && !is(pod) {
				err = fmt.Errorf("%+v", pod.Status)
			}
			return err
		}))
		return pod
	}
	for _, pod := range []*corev1.Pod{
		flagged("later", "--ready-after=4s"),
		flagged("never", "--ready-after=never"),
		flagged("fails", "--run-for=2s", "--exit-code=3"),
		flagged("lingers", "--stop-after=3s"),
		{
			ObjectMeta: metav1.ObjectMeta{Name: "broken"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:broken"}}},
		},
	} {
		if pod.Name == "fails" {
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		}
		_, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	ready := until("later", "is Ready", isReady)
	started := ready.Status.ContainerStatuses[0].State.Running.StartedAt.Time
	require.GreaterOrEqual(t, readyCondition(ready).LastTransitionTime.Sub(started),
		3*time.Second, "both are whole seconds")
	never := until("never", "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	require.False(t, isReady(never))
	failed := until("fails", "has failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	require.EqualValues(t, 3, failed.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	until("broken", "waits for its image", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == "ImagePullBackOff"
	})

	until("lingers", "is Ready", isReady)
	begin := time.Now()
	require.NoError(t, pods.Delete(t.Context(), "lingers", metav1.DeleteOptions{}))
	clustertest.Eventually(t, "pod lingers is gone", func(ctx context.Context) error {
		if _, err := pods.Get(ctx, "lingers", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%v)", err)
		}
		return nil
	})
	require.GreaterOrEqual(t, time.Since(begin), 3*time.Second)
	require.Less(t, time.Since(begin), 20*time.Second, "less than its grace period")
	require.NoError(t,
		pods.DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}))
}

// readyCondition is nil for a pod that has none yet.
func readyCondition(pod *corev1.Pod) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

func isReady(pod *corev1.Pod) bool {
	condition := readyCondition(pod)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

func componentsDieAndComeBack(t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	namespaces := func() error {
		_, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		return err
	}
	answers := func() {
		t.Helper()
		clustertest.Eventually(t, "the server answers", func(context.Context) error { return namespaces() })
	}
	// Without a server the scheduler may end.
	for _, component := range []string{cluster.Scheduler, cluster.APIServer} {
		require.NoError(t, c.Disturb(t.Context(), "kill", component))
		require.ErrorContains(t, c.Disturb(t.Context(), "kill", component), component+" does not run")
		if component == cluster.APIServer {
			require.Error(t, namespaces())
		}
		require.NoError(t, c.Disturb(t.Context(), "restart", component))
		answers()
	}
	require.NoError(t, c.Disturb(t.Context(), "restart", cluster.Scheduler), "one that runs is restarted too")

	for _, component := range []string{cluster.APIServer, cluster.Etcd} {
		require.NoError(t, c.Disturb(t.Context(), "stop", component))
		require.Error(t, namespaces())
		require.NoError(t, c.Disturb(t.Context(), "cont", component))
		answers()
	}

	require.ErrorContains(t, c.Disturb(t.Context(), "kill", cluster.Etcd), "etcd cannot be killed on kind")
	require.ErrorContains(t, c.Disturb(t.Context(), "restart", cluster.Etcd), "etcd cannot be killed on kind")
	require.EqualError(t, c.Disturb(t.Context(), "kill", cluster.Kwok), "no kwok runs on kind: its node is a real one")
	require.EqualError(t, c.Disturb(t.Context(), "stop", "kubelet"),
		`no component "kubelet" on kind: it is one of etcd, kube-apiserver, kube-scheduler`)
}

// nodesOf returns the nodes of a kind cluster by its directory; none if there is no such directory yet.
func nodesOf(t *testing.T, dir string) []nodes.Node {
	t.Helper()
	name, err := os.ReadFile(filepath.Join(dir, "kind-cluster"))
	if err != nil {
		return nil
	}
	return nodesNamed(t, string(name))
}

func nodesNamed(t *testing.T, name string) []nodes.Node {
	t.Helper()
	engine, err := sigskind.DetectNodeProvider()
	require.NoError(t, err)
	found, err := sigskind.NewProvider(engine).ListNodes(name)
	require.NoError(t, err)
	return found
}

func orphansAreRemoved(t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1")
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	dir := strings.TrimSpace(line)
	name, err := os.ReadFile(filepath.Join(dir, "kind-cluster"))
	require.NoError(t, err)
	require.Len(t, nodesNamed(t, string(name)), 1)
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	clustertest.Eventually(t, "its cluster is gone", func(context.Context) error {
		if _, err := os.Stat(dir); err == nil {
			return errors.New("its directory is there")
		}
		return nil
	})
	require.Empty(t, nodesNamed(t, string(name)))
	require.NotEmpty(t, nodesOf(t, c.Dir))
	_, err = client.CoreV1().Nodes().Get(t.Context(), nodesOf(t, c.Dir)[0].String(), metav1.GetOptions{})
	require.NoError(t, err, "the one with a living owner goes on")
}

func TestKindLeavesNothingWhenItsStartIsInterrupted(t *testing.T) {
	onKind(t)
	dir := filepath.Join(t.TempDir(), "cluster")
	ctx, cancel := context.WithCancelCause(t.Context())
	name := ""
	go func() {
		_ = await.Until(ctx, 100*time.Millisecond, 5*time.Minute, "it is being created", func(context.Context) error {
			created := nodesOf(t, dir)
			if len(created) == 0 {
				return errors.New("not yet")
			}
			name = created[0].String()
			return nil
		})
		cancel(errors.New("the user has had enough"))
	}()
	_, err := cluster.Start(ctx, cluster.Options{Dir: dir})
	skipWithoutEngine(t, err)
	require.EqualError(t, err, "start a cluster: the user has had enough")
	require.Empty(t, nodesNamed(t, strings.TrimSuffix(name, "-control-plane")))
	require.NoDirExists(t, dir)
}

func TestKindClustersAreLeftRunning(t *testing.T) {
	onKind(t)
	dir := filepath.Join(t.TempDir(), "cluster")
	root, err := cluster.Root()
	require.NoError(t, err)
	run := func(target string) (string, error) {
		cmd := exec.Command("make", "--no-print-directory", "-f", "labs/cluster.mk", target, "LABCLUSTER_DIR="+dir)
		cmd.Dir = root
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	said, err := run("cluster")
	skipWithoutEngine(t, errors.New(said))
	require.NoError(t, err, said)
	t.Cleanup(func() { _, _ = run("cluster-down") })
	require.Contains(t, said, "export KUBECONFIG="+filepath.Join(dir, "kubeconfig", "admin.kubeconfig"),
		"make kubectl looks there")
	said, err = run("cluster")
	require.Error(t, err)
	require.Contains(t, said, "already holds a kind cluster")

	said, err = run("cluster-down")
	require.NoError(t, err)
	require.Contains(t, said, "is gone")
	require.NoDirExists(t, dir)
	said, err = run("cluster-down")
	require.NoError(t, err)
	require.Contains(t, said, "nothing to do")
}
