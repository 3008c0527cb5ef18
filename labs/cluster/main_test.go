package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

// childVariable makes the test binary a program that starts a cluster and waits, so that a test can kill it.
const childVariable = "CLUSTER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		startAndWait()
	}
	clustertest.Main(m)
}

// startAndWait prints the cluster's directory and the process id of the original that runs on it.
func startAndWait() {
	c, err := cluster.StartEmbedded(context.Background(), cluster.Options{Nodes: 1})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	reference := c.Reference(context.Background(), "--controllers=serviceaccount-controller", "--leader-elect=false")
	if err := reference.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(c.Dir, reference.Process.Pid)
	_ = reference.Wait()
	select {} // whoever started this process kills it
}

// binary returns the path of bin/labcluster.
func binary(t *testing.T) string {
	t.Helper()
	clustertest.SkipIfShort(t)
	path, err := cluster.Binary(context.Background(), "labcluster", io.Discard) // cleanups call this too
	require.NoError(t, err)
	return path
}

// labcluster runs the command and returns what it printed on both outputs.
func labcluster(t *testing.T, args ...string) (output string, exitCode int) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(binary(t), args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// oneLine asserts that a user's mistake gets one line, and what it says.
func oneLine(t *testing.T, output string, parts ...string) {
	t.Helper()
	require.Len(t, strings.Split(strings.TrimSpace(output), "\n"), 1, output)
	for _, part := range parts {
		require.Contains(t, output, part)
	}
}

// newNamespace creates a namespace with the ServiceAccount "default" that pods need and that no loop creates here. When
// the test ends, its pods are deleted; no loop would remove the namespace.
func newNamespace(t *testing.T) string {
	t.Helper()
	core := clustertest.Client(t).CoreV1()
	namespace, err := core.Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err = core.ServiceAccounts(namespace.Name).Create(t.Context(), account, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
		require.NoError(t, core.Pods(namespace.Name).DeleteCollection(context.Background(), now, metav1.ListOptions{}))
	})
	return namespace.Name
}

// newPod is a pod of one container that the options change.
func newPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

// create creates a pod.
func create(t *testing.T, namespace string, pod *corev1.Pod) {
	t.Helper()
	_, err := clustertest.Client(t).CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
}

// untilPod waits until a pod is as it should be, and returns it.
func untilPod(t *testing.T, namespace, name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	clustertest.Eventually(t, "pod "+name+" "+what, func(ctx context.Context) (err error) {
		pod, err = clustertest.Client(t).CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && !is(pod) {
			err = fmt.Errorf("%+v", pod.Status)
		}
		return err
	})
	return pod
}

func isReady(pod *corev1.Pod) bool { return conditionIs(pod, corev1.PodReady, corev1.ConditionTrue) }

func conditionIs(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status == status
		}
	}
	return false
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
}
