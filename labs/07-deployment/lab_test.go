// Package deployment_test is the lab of chapter 07: the life of a Deployment,
// watched step by step, and what becomes of a rollout when something breaks in
// the middle of it.
package deployment_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
	"github.com/kcm-book/kcm-book/labs/lab"
)

func TestMain(m *testing.M) { lab.Main(m) }

// longLease lets a leader live through a failure of the control plane.
var longLease = []string{"--leader-elect-lease-duration=2m", "--leader-elect-renew-deadline=110s", "--leader-elect-retry-period=500ms"}

// What manifests/store.yaml says.
const (
	desired        = 8
	maxSurge       = 2
	maxUnavailable = 1
)

func TestDeployment(t *testing.T) {
	l := course{lab.New(t, 7)}
	var a, b *lab.Process
	var recording *history.Recording

	l.Step("A Deployment gets a ReplicaSet, and that gets the pods", func(s *lab.Step) {
		a = s.Start("a", lab.QuickLease...)
		s.Namespace("shop")
		recording = s.Record("shop")
		s.Kubectl("create -n shop -f manifests/store.yaml")
		l.awaitRollout(s, "shop", "store")
		s.Kubectl("get -n shop deployments,replicasets")

		rs := l.replicaSet(s, "shop", "web:1")
		hash := rs.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		assert.Equal(s, "store-"+hash, rs.Name)
		assert.Equal(s, hash, rs.Spec.Selector.MatchLabels[appsv1.DefaultDeploymentUniqueLabelKey])
		assert.Equal(s, "1", rs.Annotations[revision])
		s.Always(recording, "a pod belongs to a ReplicaSet, and a ReplicaSet to the Deployment", owned)
	})

	l.Step("A new version replaces the old one a few pods at a time", func(s *lab.Step) {
		s.Kubectl("set image -n shop deployment/store web=web:2")
		l.awaitRollout(s, "shop", "store")
		s.DrawReplicaSets(recording, "rolling-update")
		r := rollout{Recording: recording, generation: 2}
		r.keepsUpperBound(s)
		r.keepsLowerBound(s)
		r.neverDoubled(s)
	})

	l.Step("An undo is a rollout to a ReplicaSet that is there already", func(s *lab.Step) {
		before := l.replicaSet(s, "shop", "web:1")
		s.Kubectl("rollout undo -n shop deployment/store")
		l.awaitRollout(s, "shop", "store")
		s.Kubectl("get -n shop replicasets -o custom-columns-file=columns.txt")

		after := l.replicaSet(s, "shop", "web:1")
		assert.Equal(s, before.UID, after.UID, "no ReplicaSet was created")
		assert.Equal(s, "1", before.Annotations[revision])
		assert.Equal(s, "3", after.Annotations[revision])
		assert.EqualValues(s, desired, *after.Spec.Replicas)
	})

	l.Step("Two changes during a pause are one rollout", func(s *lab.Step) {
		s.Kubectl("rollout pause -n shop deployment/store")
		s.Kubectl("set image -n shop deployment/store web=web:3")
		s.Kubectl("set env -n shop deployment/store COLOUR=blue")
		l.awaitCondition(s, "shop", "store", appsv1.DeploymentProgressing, "DeploymentPaused")
		s.Kubectl("get -n shop deployment store")
		s.Kubectl("rollout resume -n shop deployment/store")
		l.awaitRollout(s, "shop", "store")
		s.Kubectl("get -n shop replicasets -o custom-columns-file=columns.txt")

		rs := l.replicaSet(s, "shop", "web:3") // fails if there are two
		assert.Len(s, rs.Spec.Template.Spec.Containers[0].Env, 1)
		s.Always(recording, "no ReplicaSet but those of web:1 and web:2 while the Deployment was paused", func(state history.State) error {
			for _, d := range state.Objects("deployments") {
				paused, _, _ := unstructured.NestedBool(d.Object, "spec", "paused")
				if count := len(state.ReplicaSets()); paused && count != 2 {
					return fmt.Errorf("%d ReplicaSets", count)
				}
			}
			return nil
		})
	})

	l.Step("A version that does not start is stopped before it does harm", func(s *lab.Step) {
		s.Kubectl(`patch -n shop deployment store -p '{"spec":{"progressDeadlineSeconds":3}}'`)
		s.Kubectl("set image -n shop deployment/store web=web:broken")
		s.Say("8 + 2 pods may be there, and 8 - 1 have to be available.")
		l.awaitSizes(s, "shop", map[string]int32{"web:3": 7, "web:broken": 3})
	})

	l.Step("Scaled in the middle of a rollout, both versions grow in proportion", func(s *lab.Step) {
		s.Kubectl("scale -n shop deployment/store --replicas=12")
		s.Say("10 pods become 14. 7 × 14/10 is 9.8, and 3 × 14/10 is 4.2.")
		l.awaitSizes(s, "shop", map[string]int32{"web:3": 10, "web:broken": 4})
	})

	l.Step("A rollout that gets nowhere says so, and an undo ends it", func(s *lab.Step) {
		l.awaitCondition(s, "shop", "store", appsv1.DeploymentProgressing, "ProgressDeadlineExceeded")
		s.Kubectl(`get -n shop deployment store '-ojsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}'`)
		l.awaitSizes(s, "shop", map[string]int32{"web:3": 10, "web:broken": 4})
		s.Say("That is all that happens: a report. What to do is for somebody to decide.")
		s.Kubectl("rollout undo -n shop deployment/store")
		l.awaitRollout(s, "shop", "store")
		l.awaitSizes(s, "shop", map[string]int32{"web:3": 12, "web:broken": 0})
		l.awaitCondition(s, "shop", "store", appsv1.DeploymentProgressing, "NewReplicaSetAvailable")
		s.DrawReplicaSets(recording, "life")
	})

	l.Step("With Recreate, no two versions are ever there together", func(s *lab.Step) {
		s.Namespace("ledger")
		recording := s.Record("ledger")
		s.Kubectl("create -n ledger -f manifests/ledger.yaml")
		l.awaitRollout(s, "ledger", "ledger")
		s.Kubectl("set image -n ledger deployment/ledger web=web:2")
		l.awaitRollout(s, "ledger", "ledger")
		s.DrawReplicaSets(recording, "recreate")
		s.Always(recording, "no pod of one version while one of the other may still run", func(state history.State) error {
			versions := map[string]bool{}
			for _, pod := range state.Pods() {
				// A kubelet shows that a pod has ended before it takes it away.
				if pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
					versions[pod.Spec.Containers[0].Image] = true
				}
			}
			if len(versions) > 1 {
				return fmt.Errorf("there are pods of %v", slices.Sorted(maps.Keys(versions)))
			}
			return nil
		})
		l.replicaSet(s, "ledger", "web:2")
	})

	// fault begins a rollout, has something happen in the middle of it, and awaits
	// its end. It returns what was recorded of it.
	fault := func(s *lab.Step, name, image string, happens func()) rollout {
		s.Helper()
		d, err := l.Client.AppsV1().Deployments("faults").Get(s.Context(), "store", metav1.GetOptions{})
		require.NoError(s, err)
		r := rollout{Recording: s.Record("faults"), generation: d.Generation + 1}
		changes, err := r.Changes()
		require.NoError(s, err)
		r.before = history.Now(changes)
		answered := l.answeredCreations(s)
		s.Kubectl("set image -n faults deployment/store web=" + image)
		l.awaitMiddle(s)
		happens()
		l.awaitRollout(s, "faults", "store")
		s.DrawReplicaSets(r.Recording, name)
		r.lost = len(s.Created(r.Recording)) - len(r.before["pods"]) - (l.answeredCreations(s) - answered)
		return r
	}
	// harmless is what a fault is to be that leaves one leader at a time.
	harmless := func(s *lab.Step, r rollout) {
		s.Helper()
		r.keepsUpperBound(s)
		r.keepsLowerBound(s)
		s.Always(r.Recording, "no pod was without an owner", owned)
		r.neverDoubled(s)
	}

	l.Step("The leader is killed in the middle of a rollout, and another goes on", func(s *lab.Step) {
		s.Namespace("faults")
		s.Kubectl("create -n faults -f manifests/store.yaml")
		l.awaitRollout(s, "faults", "store")
		b = s.Start("b", lab.QuickLease...)
		s.AwaitLog(b, "Attempting to acquire leader lease")
		harmless(s, fault(s, "killed", "web:2", func() {
			s.Signal(a, syscall.SIGKILL)
			s.AwaitLog(b, "Successfully acquired lease")
		}))
	})

	l.Step("The leader freezes, is replaced, and wakes up again", func(s *lab.Step) {
		c := s.Start("c", longLease...)
		s.AwaitLog(c, "Attempting to acquire leader lease")
		r := fault(s, "frozen", "web:3", func() {
			s.Signal(b, syscall.SIGSTOP)
			s.AwaitLog(c, "Successfully acquired lease")
			s.Signal(b, syscall.SIGCONT)
			assert.NotEqual(s, 0, s.AwaitExit(b), "it has lost the Lease")
		})
		s.Say("Until its renew deadline had passed there were two leaders, and their ReplicaSet loops did not know of each other.")
		s.Say("Pods that were created twice: %d; pods that were available at the worst: %d.", r.doubled(s), r.leastAvailable(s))
		s.Say("The sizes are safe all the same: who writes one says which version of the ReplicaSet it has seen.")
		r.keepsUpperBound(s)
		s.Always(r.Recording, "no pod was without an owner", owned)
		s.Await("what was too many has gone again", func(ctx context.Context) (bool, string, error) {
			pods, err := l.Client.CoreV1().Pods("faults").List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, "", err
			}
			return len(pods.Items) == desired, fmt.Sprintf("%d pods", len(pods.Items)), nil
		})
	})

	l.Step("The API server is killed in the middle of a rollout, and started again", func(s *lab.Step) {
		s.OnlyEmbedded("the kubelet starts it again in its own time, and its first news may come before the lab's recording goes on")
		harmless(s, fault(s, "api-server", "web:1", func() {
			require.NoError(s, l.Cluster.Kill(s.Context(), cluster.APIServer))
			s.Say("the API server was killed")
			require.NoError(s, l.Cluster.Restart(s.Context(), cluster.APIServer))
			s.Say("and has been started again")
		}))
	})

	l.Step("etcd hangs in the middle of a rollout", func(s *lab.Step) {
		harmless(s, fault(s, "etcd", "web:2", func() {
			require.NoError(s, l.Cluster.Stop(s.Context(), cluster.Etcd))
			s.Say("etcd was stopped")
			s.KubectlFails("get -n faults deployments --request-timeout=2s")
			require.NoError(s, l.Cluster.Continue(s.Context(), cluster.Etcd))
			s.Say("and goes on")
		}))
	})

	l.Step("Somebody writes to the same objects for six seconds", func(s *lab.Step) {
		conflicts := func() int {
			events, err := l.Cluster.AuditEvents(func(e cluster.AuditEvent) bool {
				return e.Namespace == "faults" && e.Code == 409 && e.User == "system:serviceaccount:kube-system:deployment-controller"
			})
			require.NoError(s, err)
			return len(events)
		}
		before := conflicts()
		ctx, stop := context.WithCancel(s.Context())
		defer stop()
		var writing sync.WaitGroup
		r := fault(s, "conflicts", "web:3", func() {
			s.Say("$ for n in {1..60}; do kubectl annotate -n faults --overwrite deployment,replicasets --all note=$n; sleep 0.1; done")
			writing.Go(func() { l.annotate(ctx, "faults") })
		})
		stop()
		writing.Wait()
		harmless(s, r)
		count := conflicts() - before
		s.Say("%d of the loop's writes were refused, because somebody else had been first", count)
		assert.NotZero(s, count)
	})
}

const revision = "deployment.kubernetes.io/revision"

// course is the lab with what its steps have in common.
type course struct{ *lab.Lab }

// awaitRollout waits until all pods that are wanted are there, of the present
// version and available, and no others.
func (l course) awaitRollout(s *lab.Step, namespace, name string) {
	s.Helper()
	s.Await(name+" is rolled out", func(ctx context.Context) (bool, string, error) {
		d, err := l.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		wanted, is := *d.Spec.Replicas, d.Status
		done := is.ObservedGeneration >= d.Generation && is.UpdatedReplicas == wanted && is.Replicas == wanted && is.AvailableReplicas == wanted
		return done, fmt.Sprintf("%d of %d pods are new, %d are available", is.UpdatedReplicas, wanted, is.AvailableReplicas), nil
	})
}

func (l course) awaitCondition(s *lab.Step, namespace, name string, kind appsv1.DeploymentConditionType, reason string) {
	s.Helper()
	s.Await(fmt.Sprintf("%s is %s", kind, reason), func(ctx context.Context) (bool, string, error) {
		d, err := l.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		i := slices.IndexFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
		if i < 0 {
			return false, "no such condition", nil
		}
		now := d.Status.Conditions[i].Reason
		return now == reason && d.Status.ObservedGeneration >= d.Generation, now, nil
	})
}

// awaitSizes waits until the ReplicaSets of these images have these sizes, and
// have that many pods.
func (l course) awaitSizes(s *lab.Step, namespace string, want map[string]int32) {
	s.Helper()
	s.Await(fmt.Sprintf("the sizes are %v", want), func(ctx context.Context) (bool, string, error) {
		list, err := l.Client.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		sizes, done := map[string]int32{}, true
		for _, rs := range list.Items {
			image := rs.Spec.Template.Spec.Containers[0].Image
			if _, ok := want[image]; ok {
				sizes[image] = *rs.Spec.Replicas
				done = done && rs.Status.Replicas == *rs.Spec.Replicas
			}
		}
		return done && maps.Equal(sizes, want), fmt.Sprint(sizes), nil
	})
}

// replicaSet returns the only ReplicaSet of an image.
func (l course) replicaSet(s *lab.Step, namespace, image string) *appsv1.ReplicaSet {
	s.Helper()
	list, err := l.Client.AppsV1().ReplicaSets(namespace).List(s.Context(), metav1.ListOptions{})
	require.NoError(s, err)
	found := slices.DeleteFunc(list.Items, func(rs appsv1.ReplicaSet) bool { return rs.Spec.Template.Spec.Containers[0].Image != image })
	require.Len(s, found, 1, "ReplicaSets of %s", image)
	return &found[0]
}

// awaitMiddle waits until two versions of the store have pods.
func (l course) awaitMiddle(s *lab.Step) {
	s.Helper()
	s.Await("the rollout is in the middle", func(ctx context.Context) (bool, string, error) {
		list, err := l.Client.AppsV1().ReplicaSets("faults").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		var sizes []string
		for _, rs := range list.Items {
			if rs.Status.Replicas > 0 {
				sizes = append(sizes, fmt.Sprint(rs.Status.Replicas))
			}
		}
		return len(sizes) > 1, "sizes " + strings.Join(sizes, " + "), nil
	})
}

// answeredCreations returns how many creations of pods the API server has
// answered with success.
func (l course) answeredCreations(s *lab.Step) int {
	s.Helper()
	events, err := l.Cluster.AuditEvents(func(e cluster.AuditEvent) bool {
		return e.Namespace == "faults" && e.Resource == "pods" && e.Subresource == "" && e.Verb == "create" && e.Code == 201
	})
	require.NoError(s, err)
	return len(events)
}

// annotate writes an annotation to the Deployment and the ReplicaSets of a
// namespace, one after the other, ten times a second for six seconds, or until
// ctx ends. (Without a pause the loop would hardly ever be the first, and on a
// busy machine it is not even then: so this has an end.)
func (l course) annotate(ctx context.Context, namespace string) {
	ctx, cancel := context.WithTimeout(ctx, 6*time.Second)
	defer cancel()
	n := 0
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		n++
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"note":"%d"}}}`, n)
		apps := l.Client.AppsV1()
		apps.Deployments(namespace).Patch(ctx, "store", types.MergePatchType, patch, metav1.PatchOptions{})
		list, err := apps.ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return // the next one may find more
		}
		for _, rs := range list.Items {
			apps.ReplicaSets(namespace).Patch(ctx, rs.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	}, 100*time.Millisecond)
}

// owned fails for a state in which a pod has no ReplicaSet as its controller, or
// a ReplicaSet no Deployment.
func owned(state history.State) error {
	for _, pod := range state.Pods() {
		if ref := metav1.GetControllerOf(pod); ref == nil || ref.Kind != "ReplicaSet" {
			return fmt.Errorf("pod %s belongs to %v", pod.Name, ref)
		}
	}
	for _, rs := range state.ReplicaSets() {
		if ref := metav1.GetControllerOf(rs); ref == nil || ref.Kind != "Deployment" {
			return fmt.Errorf("ReplicaSet %s belongs to %v", rs.Name, ref)
		}
	}
	return nil
}

// rollout is what was recorded of a rollout of the store.
type rollout struct {
	*history.Recording
	// generation is the one with which it began.
	generation int64
	// before is what was there already when the recording began.
	before history.State
	// lost is how many creations of pods were carried out without an answer.
	lost int
}

// always looks back over the rollout.
func (r rollout) always(s *lab.Step, what string, holds func(history.State) error) {
	s.Helper()
	s.Always(r.Recording, what, func(state history.State) error {
		if !r.begun(state) {
			return nil
		}
		return holds(state)
	})
}

func (r rollout) begun(state history.State) bool {
	return slices.ContainsFunc(state.Objects("deployments"), func(d *unstructured.Unstructured) bool { return d.GetGeneration() >= r.generation })
}

func (r rollout) keepsUpperBound(s *lab.Step) {
	s.Helper()
	r.always(s, fmt.Sprintf("never more than %d + %d pods were asked for", desired, maxSurge), func(state history.State) error {
		var sum int32
		for _, rs := range state.ReplicaSets() {
			sum += *rs.Spec.Replicas
		}
		if sum > desired+maxSurge {
			return fmt.Errorf("%d pods were asked for", sum)
		}
		return nil
	})
}

func (r rollout) keepsLowerBound(s *lab.Step) {
	s.Helper()
	r.always(s, fmt.Sprintf("never fewer than %d - %d pods were available", desired, maxUnavailable), func(state history.State) error {
		if count := available(state); count < desired-maxUnavailable {
			return fmt.Errorf("%d pods were available", count)
		}
		return nil
	})
}

// available counts the pods that a Deployment counts on: Ready, and not told to
// end.
func available(state history.State) int {
	return len(slices.DeleteFunc(state.Pods(), func(pod *corev1.Pod) bool {
		return !controller.IsPodActive(pod) || !controller.IsPodReady(pod)
	}))
}

func (r rollout) leastAvailable(s *lab.Step) int {
	s.Helper()
	changes, err := r.Changes()
	require.NoError(s, err)
	least := desired
	for _, state := range history.States(changes) {
		if r.begun(state) {
			least = min(least, available(state))
		}
	}
	return least
}

// neverDoubled fails if more pods were created than the sizes asked for. Only a
// creation whose answer was lost may be repeated; one pod then goes again.
func (r rollout) neverDoubled(s *lab.Step) {
	s.Helper()
	doubled := r.doubled(s)
	assert.LessOrEqual(s, doubled, r.lost, "pods that were created twice, and answers that were lost")
	s.Say("pods that were created twice: %d; creations that were not answered: %d", doubled, r.lost)
}

// doubled is how many pods were created beyond one for each by which the size of
// a ReplicaSet was raised.
func (r rollout) doubled(s *lab.Step) int {
	s.Helper()
	changes, err := r.Changes()
	require.NoError(s, err)
	surplus, size, seen := map[types.UID]int32{}, map[types.UID]int32{}, map[types.UID]bool{}
	for uid, rs := range r.before["replicasets"] {
		size[uid] = *history.As[appsv1.ReplicaSet](rs).Spec.Replicas
	}
	for _, change := range changes {
		uid := change.Object.GetUID()
		switch {
		case change.Resource == "replicasets" && change.Type != watch.Deleted:
			now := *history.As[appsv1.ReplicaSet](change.Object).Spec.Replicas
			surplus[uid] -= max(0, now-size[uid])
			size[uid] = now
		case change.Resource == "pods" && !seen[uid] && r.before["pods"][uid] == nil:
			seen[uid] = true
			if ref := metav1.GetControllerOf(change.Object); ref != nil {
				surplus[ref.UID]++
			}
		}
	}
	var doubled int
	for _, count := range surplus {
		doubled += int(max(0, count))
	}
	return doubled
}
