package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

func annotated(name, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations["lab.kcm-book.io/"+name] = value }
}

// indexed makes the pod one of an indexed Job.
func indexed(index string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations["batch.kubernetes.io/job-completion-index"] = index }
}

func commanded(words ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Command = words }
}

// flagging gives the first container flags of labs/web.
func flagging(flags ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Args = flags }
}

func withImage(image string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Image = image }
}

func restarted(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = policy }
}

func TestAPodIsReadyAboutASecondAfterItWasCreated(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	begin := time.Now()
	create(t, namespace, newPod("web"))
	running := untilPod(t, namespace, "web", "runs",
		func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	require.False(t, isReady(running), "a container that has just started is not ready")
	pod := untilPod(t, namespace, "web", "is Ready", isReady)
	require.GreaterOrEqual(t, time.Since(begin), 900*time.Millisecond)

	for _, kind := range []corev1.PodConditionType{
		corev1.PodScheduled, corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady,
	} {
		require.True(t, conditionIs(pod, kind, corev1.ConditionTrue), kind)
	}
	require.NotEmpty(t, pod.Status.PodIP)
	require.NotEmpty(t, pod.Status.HostIP)
	require.NotNil(t, pod.Status.StartTime)
	require.True(t, pod.Status.ContainerStatuses[0].Ready)
	require.True(t, *pod.Status.ContainerStatuses[0].Started)
}

func TestReadinessWaitsAsLongAsTheAnnotationOrTheFlagSays(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	begin := time.Now()
	// On a busy machine one pod may have to wait, but hardly all of them.
	quick := []string{"quick-1", "quick-2", "quick-3"}
	for _, name := range quick {
		create(t, namespace, newPod(name, annotated("ready-after", "0s")))
	}
	create(t, namespace, newPod("slow", annotated("ready-after", "3s")))
	create(t, namespace, newPod("flagged", flagging("--ready-after=3s")))
	create(t, namespace, newPod("overruled", flagging("--ready-after=never"), annotated("ready-after", "0s")))
	untilPod(t, namespace, "overruled", "is Ready, as its annotation says", isReady)
	untilPod(t, namespace, "flagged", "is Ready", isReady)
	require.GreaterOrEqual(t, readyAfterStart(t, namespace, "flagged"), 2900*time.Millisecond)
	untilPod(t, namespace, "slow", "is Ready", isReady)
	require.GreaterOrEqual(t, time.Since(begin), 2900*time.Millisecond)
	least := time.Hour
	for _, name := range quick {
		untilPod(t, namespace, name, "is Ready", isReady)
		least = min(least, readyAfterStart(t, namespace, name))
	}
	require.Less(t, least, 900*time.Millisecond, "without the annotation it is a second")
}

// readyAfterStart returns how long after its start a pod was made Ready: these are the first two changes of its status
// that kwok has made.
func readyAfterStart(t *testing.T, namespace, pod string) time.Duration {
	t.Helper()
	changes, err := clustertest.Cluster(t).AuditEvents(func(e *cluster.AuditEvent) bool {
		about := e.ObjectRef
		return e.User.Username == "kwok" && e.Verb == "patch" &&
			about.Subresource == "status" && about.Namespace == namespace && about.Name == pod
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(changes), 2)
	return changes[1].RequestReceivedTimestamp.Sub(changes[0].RequestReceivedTimestamp.Time)
}

func TestWhatNeverGetsReadyIsNotReadyWhenOthersAre(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	create(t, namespace, newPod("broken", withImage("registry.example.com:5000/web:broken")))
	create(t, namespace, newPod("never", annotated("ready-after", "never")))
	create(t, namespace, newPod("flagged", flagging("--ready-after", "never")))
	create(t, namespace, newPod("later", annotated("ready-after", "3s")))
	untilPod(t, namespace, "later", "is Ready", isReady)
	broken := untilPod(t, namespace, "broken", "waits for its image", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil
	})
	require.Equal(t, corev1.PodPending, broken.Status.Phase)
	require.Equal(t, "ImagePullBackOff", broken.Status.ContainerStatuses[0].State.Waiting.Reason)
	never := untilPod(t, namespace, "never", "runs",
		func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	require.False(t, isReady(never))
	flagged := untilPod(t, namespace, "flagged", "runs",
		func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	require.False(t, isReady(flagged))

	patch := []byte(`{"spec":{"containers":[{"name":"main","image":"web:fixed"}]}}`)
	_, err := clustertest.Client(t).CoreV1().Pods(namespace).Patch(t.Context(), "broken", types.StrategicMergePatchType,
		patch, metav1.PatchOptions{})
	require.NoError(t, err)
	untilPod(t, namespace, "broken", "is Ready with a good image", isReady)
}

func TestReadinessGatesCount(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	create(t, namespace, newPod("gated", func(p *corev1.Pod) {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	}))
	pod := untilPod(t, namespace, "gated", "has ready containers", func(p *corev1.Pod) bool {
		return conditionIs(p, corev1.ContainersReady, corev1.ConditionTrue)
	})
	require.False(t, isReady(pod))
	setGate := func(status string) {
		patch := []byte(`{"status":{"conditions":[{"type":"example.com/gate","status":"` + status + `"}]}}`)
		_, err := clustertest.Client(t).CoreV1().Pods(namespace).Patch(t.Context(), "gated", types.StrategicMergePatchType,
			patch, metav1.PatchOptions{}, "status")
		require.NoError(t, err)
	}
	setGate("True")
	untilPod(t, namespace, "gated", "is Ready", isReady)
	setGate("False")
	untilPod(t, namespace, "gated", "is not Ready", func(p *corev1.Pod) bool { return !isReady(p) })
}

func TestInitContainersRunFirst(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	create(t, namespace, newPod("init", func(p *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "web:1"},
			{Name: "sidecar", Image: "web:1", RestartPolicy: &always}}
	}))
	untilPod(t, namespace, "init", "initialises", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodPending && len(p.Status.InitContainerStatuses) == 2
	})
	pod := untilPod(t, namespace, "init", "is Ready", isReady)
	require.NotNil(t, pod.Status.InitContainerStatuses[0].State.Terminated)
	require.NotNil(t, pod.Status.InitContainerStatuses[1].State.Running)
}

func TestContainersEndAsTheirCommandFlagsOrAnnotationsAsk(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	never, onFailure := restarted(corev1.RestartPolicyNever), restarted(corev1.RestartPolicyOnFailure)
	oddFails := commanded("sh", "-c", "if [ $(expr ${JOB_COMPLETION_INDEX} % 2) -ne 0 ]\nthen exit 1\nelse exit 0\nfi")
	firstFails := commanded("sh", "-c", "if [[ -r /data/foo ]]; then exit 0; else touch /data/foo; exit 42; fi")
	cases := []struct {
		name  string
		pod   *corev1.Pod
		phase corev1.PodPhase
		code  int32
		after time.Duration
	}{
		{"sleep and exit", newPod("sleep-and-exit", never, commanded("sh", "-c", "sleep 2; exit 3")),
			corev1.PodFailed, 3, 2 * time.Second},
		{"sleep", newPod("sleep", onFailure, commanded("sleep", "1")), corev1.PodSucceeded, 0, time.Second},
		{"exit", newPod("exit", never, commanded("sh", "-c", "exit 1")), corev1.PodFailed, 1, 0},
		{"annotations", newPod("annotations", never, annotated("run-for", "1500ms"), annotated("exit-code", "7")),
			corev1.PodFailed, 7, 1500 * time.Millisecond},
		{"flags", newPod("flags", never, flagging("--run-for=1500ms", "--exit-code=3")), corev1.PodFailed,
			3, 1500 * time.Millisecond},
		{"a flag in the command", newPod("flag", onFailure, commanded("/web", "--run-for", "1s")),
			corev1.PodSucceeded, 0, time.Second},
		{"an exit code as a flag", newPod("exit-flag", never, flagging("-exit-code=2")), corev1.PodFailed, 2, 0},
		{"a hostname that fails", newPod("part-3", never, flagging("--run-for=1s", "--fails-as=[135]$")),
			corev1.PodFailed, 1, time.Second},
		{"a hostname that does not", newPod("part-4", never, flagging("--fails-as=[135]$")), corev1.PodSucceeded, 0, 0},
		{"a hostname that ends",
			newPod("part-5", never, flagging("--exit-code=2", "--ends-as=[135]$")), corev1.PodFailed, 2, 0},
		{"flags and annotations", newPod("both", never, flagging("--run-for=1h", "--exit-code=3"), annotated("run-for", "1s"),
			annotated("exit-code", "4")), corev1.PodFailed, 4, time.Second},
		{"a flag that is not understood", newPod("not-understood", never, flagging("--run-for=1s", "--exit-code=soon")),
			corev1.PodSucceeded, 0, time.Second},
		{"no exit code", newPod("no-exit-code", never, commanded("sh", "-c", "exit 3"), annotated("exit-code", "1234")),
			corev1.PodFailed, 3, 0},
		{"an odd index", newPod("odd", never, oddFails, indexed("3")), corev1.PodFailed, 1, 0},
		{"an even index", newPod("even", never, oddFails, indexed("4")), corev1.PodSucceeded, 0, 0},
		{"a file that is not there yet", newPod("first", never, firstFails), corev1.PodFailed, 42, 0},
		{"a file that a first run left", newPod("second", onFailure, firstFails), corev1.PodSucceeded, 0, 0},
		{"a shell without a script", newPod("idle", never, withImage("registry.k8s.io/e2e-test-images/busybox:1.37.0-1")),
			corev1.PodSucceeded, 0, 0},
		{"a loop's exit", newPod("loops-exit", never, commanded("sh", "-c", "while true; do exit 3; done"),
			annotated("run-for", "1s")), corev1.PodSucceeded, 0, time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			create(t, namespace, c.pod)
			pod := untilPod(t, namespace, c.pod.Name, "has ended", func(p *corev1.Pod) bool {
				return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
			})
			require.Equal(t, c.phase, pod.Status.Phase)
			require.Equal(t, c.code, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
			require.GreaterOrEqual(t, time.Since(begin), c.after)
			require.False(t, isReady(pod))
		})
	}
}

func TestContainersThatAreToRunAlwaysAreRestarted(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	create(t, namespace, newPod("crash", commanded("sh", "-c", "exit 1")))
	create(t, namespace,
		newPod("loop", restarted(corev1.RestartPolicyNever), commanded("sh", "-c", "while true; do sleep 0; done")))
	pod := untilPod(t, namespace, "crash", "was restarted", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 1
	})
	require.Equal(t, corev1.PodRunning, pod.Status.Phase)
	require.EqualValues(t, 1, pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode)
	untilPod(t, namespace, "loop", "runs on and is Ready", isReady)
}

// untilGone waits until a pod is gone.
func untilGone(t *testing.T, namespace, name string) {
	t.Helper()
	clustertest.Eventually(t, "pod "+name+" is gone", func(ctx context.Context) error {
		pod, err := clustertest.Client(t).CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return fmt.Errorf("still there, deletion: %v", pod.DeletionTimestamp)
		}
		return err
	})
}

func deletePod(t *testing.T, namespace, name string, grace int64) {
	t.Helper()
	err := clustertest.Client(t).CoreV1().Pods(namespace).Delete(t.Context(), name,
		metav1.DeleteOptions{GracePeriodSeconds: &grace})
	require.NoError(t, err)
}

func TestDeletionHonoursTheGracePeriod(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name         string
		grace        int64
		pod          *corev1.Pod
		least, bound time.Duration
	}{
		{"well behaved", 30, newPod("well-behaved"), 400 * time.Millisecond, 10 * time.Second},
		{"slow", 30, newPod("slow", annotated("stop-after", "3s")), 2900 * time.Millisecond, 15 * time.Second},
		{"slow by a flag", 30, newPod("slow-by-a-flag", flagging("--stop-after=3s")),
			2900 * time.Millisecond, 15 * time.Second},
		// A deletionTimestamp has whole seconds: the grace period may end up to one second early.
		{"deaf", 3, newPod("deaf", annotated("stop-after", "1h")), 1900 * time.Millisecond, 15 * time.Second},
		{"forced", 0, newPod("forced", annotated("stop-after", "1h")), 0, 5 * time.Second},
	}
	namespace := newNamespace(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			create(t, namespace, c.pod)
			untilPod(t, namespace, c.pod.Name, "runs", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
			begin := time.Now()
			deletePod(t, namespace, c.pod.Name, c.grace)
			untilGone(t, namespace, c.pod.Name)
			took := time.Since(begin)
			require.GreaterOrEqual(t, took, c.least)
			require.Less(t, took, c.bound)
		})
	}
}

func TestADeletedPodWithAFinalizerEndsButStays(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	create(t, namespace, newPod("kept", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/keep"} }))
	untilPod(t, namespace, "kept", "is Ready", isReady)
	deletePod(t, namespace, "kept", 30)
	pod := untilPod(t, namespace, "kept", "has failed",
		func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	require.EqualValues(t, 143, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	_, err := clustertest.Client(t).CoreV1().Pods(namespace).Patch(t.Context(), "kept", types.MergePatchType,
		patch, metav1.PatchOptions{})
	require.NoError(t, err)
	untilGone(t, namespace, "kept")
}
