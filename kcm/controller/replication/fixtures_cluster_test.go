package replication_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/replication"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

func TestMain(m *testing.M) {
	clustertest.Main(m,
		clustertest.Loop{
			Name: "replicaset-controller",
			Start: func(ctx context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory) (func(context.Context), error) {
				c := replication.NewReplicaSetController(ctx, informers.Apps().V1().ReplicaSets(), informers.Core().V1().Pods(), client, replication.BurstReplicas)
				return func(ctx context.Context) { c.Run(ctx, 5) }, nil
			},
		},
		clustertest.Loop{
			Name: "replicationcontroller-controller",
			Start: func(ctx context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory) (func(context.Context), error) {
				c := replication.NewReplicationManager(ctx, informers.Core().V1().Pods(), informers.Core().V1().ReplicationControllers(), client, replication.BurstReplicas)
				return func(ctx context.Context) { c.Run(ctx, 5) }, nil
			},
		})
}

// api is what a test does with sets of one kind. All have the shape of a
// ReplicaSet.
type api struct {
	kind         string
	component    string
	create       func(ctx context.Context, set *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error)
	get          func(ctx context.Context, name string) (*appsv1.ReplicaSet, error)
	update       func(ctx context.Context, set *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error)
	deleteByName func(ctx context.Context, name string) error
}

func replicaSetAPI(client kubernetes.Interface, namespace string) api {
	sets := client.AppsV1().ReplicaSets(namespace)
	return api{
		kind:      "ReplicaSet",
		component: "replicaset-controller",
		create: func(ctx context.Context, set *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
			return sets.Create(ctx, set, metav1.CreateOptions{})
		},
		get: func(ctx context.Context, name string) (*appsv1.ReplicaSet, error) {
			return sets.Get(ctx, name, metav1.GetOptions{})
		},
		update: func(ctx context.Context, set *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
			return sets.Update(ctx, set, metav1.UpdateOptions{})
		},
		deleteByName: func(ctx context.Context, name string) error {
			return sets.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
		},
	}
}

func replicationControllerAPI(client kubernetes.Interface, namespace string) api {
	rcs := client.CoreV1().ReplicationControllers(namespace)
	return api{
		kind:      "ReplicationController",
		component: "replication-controller",
		create: func(ctx context.Context, set *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
			return fromRC(rcs.Create(ctx, toRC(set), metav1.CreateOptions{}))
		},
		get: func(ctx context.Context, name string) (*appsv1.ReplicaSet, error) {
			return fromRC(rcs.Get(ctx, name, metav1.GetOptions{}))
		},
		update: func(ctx context.Context, set *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
			return fromRC(rcs.Update(ctx, toRC(set), metav1.UpdateOptions{}))
		},
		deleteByName: func(ctx context.Context, name string) error {
			return rcs.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
		},
	}
}

// The two kinds differ in JSON only in the selector, which is labels in one
// and has labels in it in the other.
func toRC(set *appsv1.ReplicaSet) *corev1.ReplicationController {
	shell := set.DeepCopy()
	shell.Spec.Selector = nil
	rc := &corev1.ReplicationController{}
	convert(shell, rc)
	rc.Spec.Selector = set.Spec.Selector.MatchLabels
	return rc
}

func fromRC(rc *corev1.ReplicationController, err error) (*appsv1.ReplicaSet, error) {
	if err != nil {
		return nil, err
	}
	shell, set := rc.DeepCopy(), &appsv1.ReplicaSet{}
	shell.Spec.Selector = nil
	convert(shell, set)
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: rc.Spec.Selector}
	return set, nil
}

func convert(from, to any) {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		panic(err)
	}
}

// lab is one test's namespace and the kind of sets that it is about.
type lab struct {
	*testing.T
	api
	client    kubernetes.Interface
	namespace string
}

// forEachKind runs a test once for each of the two kinds, each in a namespace
// of its own.
func forEachKind(t *testing.T, test func(l lab)) {
	t.Parallel()
	for kind, newAPI := range map[string]func(kubernetes.Interface, string) api{
		"ReplicaSet":            replicaSetAPI,
		"ReplicationController": replicationControllerAPI,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			client, namespace := clustertest.Client(t), clustertest.Namespace(t)
			test(lab{T: t, api: newAPI(client, namespace), client: client, namespace: namespace})
		})
	}
}

// newSet returns a set whose pods have the label app with the set's name.
func newSet(name string, replicas int32, edits ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	app := map[string]string{"app": name}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(app)},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}}},
			},
		},
	}
	for _, edit := range edits {
		edit(set)
	}
	return set
}

func (l lab) createSet(set *appsv1.ReplicaSet) *appsv1.ReplicaSet {
	l.Helper()
	created, err := l.create(l.Context(), set)
	require.NoError(l, err)
	return created
}

// changeSet edits a set and returns it as the API server then has it. The
// controller writes to it too, so it may take a few attempts.
func (l lab) changeSet(name string, edit func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
	l.Helper()
	var changed *appsv1.ReplicaSet
	require.NoError(l, retry.RetryOnConflict(wait.Backoff{Steps: 100, Duration: 10 * time.Millisecond}, func() error {
		set, err := l.get(l.Context(), name)
		if err != nil {
			return err
		}
		edit(set)
		changed, err = l.update(l.Context(), set)
		return err
	}))
	return changed
}

func (l lab) scale(name string, replicas int32) {
	l.Helper()
	l.changeSet(name, func(set *appsv1.ReplicaSet) { set.Spec.Replicas = &replicas })
}

// waitForStatus waits until the controller has seen the set's present spec and
// says what done wants to hear.
func (l lab) waitForStatus(name, what string, done func(appsv1.ReplicaSetStatus) bool) *appsv1.ReplicaSet {
	l.Helper()
	var set *appsv1.ReplicaSet
	clustertest.Eventually(l, fmt.Sprintf("%s %s has %s", l.kind, name, what), func(ctx context.Context) (bool, string, error) {
		var err error
		if set, err = l.get(ctx, name); err != nil {
			return false, "", err
		}
		seen, _ := json.Marshal(set.Status)
		return set.Status.ObservedGeneration >= set.Generation && done(set.Status), fmt.Sprintf("generation %d, status %s", set.Generation, seen), nil
	})
	return set
}

// waitForReplicas waits until the status says that there are n pods.
func (l lab) waitForReplicas(name string, n int32) *appsv1.ReplicaSet {
	l.Helper()
	return l.waitForStatus(name, fmt.Sprintf("%d replicas", n), func(s appsv1.ReplicaSetStatus) bool { return s.Replicas == n })
}

// waitForAvailable waits until n pods are there and all are available.
func (l lab) waitForAvailable(name string, n int32) *appsv1.ReplicaSet {
	l.Helper()
	return l.waitForStatus(name, fmt.Sprintf("%d available replicas", n), func(s appsv1.ReplicaSetStatus) bool {
		return s.Replicas == n && s.ReadyReplicas == n && s.AvailableReplicas == n && s.FullyLabeledReplicas == n
	})
}

// pods returns the pods that selector matches.
func (l lab) pods(selector string) []corev1.Pod {
	l.Helper()
	list, err := l.client.CoreV1().Pods(l.namespace).List(l.Context(), metav1.ListOptions{LabelSelector: selector})
	require.NoError(l, err)
	return list.Items
}

// ownPods returns the pods that the set controls and that run or will.
func (l lab) ownPods(set *appsv1.ReplicaSet) []corev1.Pod {
	l.Helper()
	return slices.DeleteFunc(l.pods(""), func(pod corev1.Pod) bool {
		return !metav1.IsControlledBy(&pod, set) || !controller.IsPodActive(&pod)
	})
}

func (l lab) getPod(name string) *corev1.Pod {
	l.Helper()
	pod, err := l.client.CoreV1().Pods(l.namespace).Get(l.Context(), name, metav1.GetOptions{})
	require.NoError(l, err)
	return pod
}

func (l lab) createPod(name string, labels map[string]string) *corev1.Pod {
	l.Helper()
	pod, err := l.client.CoreV1().Pods(l.namespace).Create(l.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       newSet("", 0).Spec.Template.Spec,
	}, metav1.CreateOptions{})
	require.NoError(l, err)
	return pod
}

func (l lab) patchPod(name, patch string) {
	l.Helper()
	_, err := l.client.CoreV1().Pods(l.namespace).Patch(l.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(l, err)
}

func (l lab) deletePod(name string) {
	l.Helper()
	require.NoError(l, l.client.CoreV1().Pods(l.namespace).Delete(l.Context(), name, metav1.DeleteOptions{}))
}

// waitForOwner waits until the pod's controller has the given UID, or until it
// has none when that is empty.
func (l lab) waitForOwner(pod string, owner types.UID) {
	l.Helper()
	clustertest.Eventually(l, fmt.Sprintf("pod %s has controller %q", pod, owner), func(ctx context.Context) (bool, string, error) {
		got, err := l.client.CoreV1().Pods(l.namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		ref := metav1.GetControllerOf(got)
		if owner == "" || ref == nil {
			return (owner == "") == (ref == nil), fmt.Sprintf("owner references %v", got.OwnerReferences), nil
		}
		return ref.UID == owner, fmt.Sprintf("controller %s", ref.UID), nil
	})
}

// waitUntilPodsAreSeen returns when the controller's cache has every pod as it
// is now. Another set has adopted a pod that was created after all that: the
// controller sees pods in the order in which they change.
func (l lab) waitUntilPodsAreSeen(witness string) {
	l.Helper()
	set := l.createSet(newSet(witness, 1))
	l.waitForReplicas(witness, 1)
	last := l.createPod(witness+"-last", map[string]string{"app": witness})
	// It makes two where one is asked for: one of them goes, which only a
	// controller does that has seen it.
	clustertest.Eventually(l, "pod "+last.Name+" was seen", func(ctx context.Context) (bool, string, error) {
		pods, err := l.client.CoreV1().Pods(l.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + witness})
		if err != nil {
			return false, "", err
		}
		gone := len(pods.Items) < 2 || slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		return gone, fmt.Sprintf("%d pods of %s", len(pods.Items), set.Name), nil
	})
}

// waitForSync has the controller sync a set anew, with the pods as they are
// now.
func (l lab) waitForSync(name, witness string) *appsv1.ReplicaSet {
	l.Helper()
	l.waitUntilPodsAreSeen(witness)
	l.changeSet(name, func(set *appsv1.ReplicaSet) { set.Spec.MinReadySeconds++ })
	return l.waitForStatus(name, "been synced", func(appsv1.ReplicaSetStatus) bool { return true })
}

// recording is what a watch of pods has told since it was begun.
type recording struct {
	mu      sync.Mutex
	created []string
	broken  []watch.Event
}

// record records the pods that are created with these labels from now on.
func (l lab) record(selector map[string]string) *recording {
	l.Helper()
	pods := l.client.CoreV1().Pods(l.namespace)
	list, err := pods.List(l.Context(), metav1.ListOptions{})
	require.NoError(l, err)
	// The API server cuts off a watch that does not keep up. This one goes on
	// where it was cut off, so it misses nothing.
	watcher, err := watchtools.NewRetryWatcherWithContext(l.Context(), list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = labels.SelectorFromSet(selector).String()
			return pods.Watch(ctx, options)
		},
	})
	require.NoError(l, err)
	r := &recording{}
	var running sync.WaitGroup
	running.Go(func() {
		for event := range watcher.ResultChan() {
			r.mu.Lock()
			switch event.Type {
			case watch.Added:
				r.created = append(r.created, event.Object.(*corev1.Pod).Name)
			case watch.Error:
				r.broken = append(r.broken, event)
			}
			r.mu.Unlock()
		}
	})
	l.Cleanup(func() {
		watcher.Stop()
		running.Wait()
	})
	return r
}

// waitForCreated waits until n pods were recorded and returns their names.
func (l lab) waitForCreated(r *recording, n int) []string {
	l.Helper()
	var created []string
	clustertest.Eventually(l, fmt.Sprintf("%d pods were created", n), func(context.Context) (bool, string, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		require.Empty(l, r.broken)
		created = slices.Clone(r.created)
		return len(created) >= n, fmt.Sprintf("%d created", len(created)), nil
	})
	return created
}

// waitForEvents waits until the set has n events of that reason, counting
// repetitions, and returns their messages.
func (l lab) waitForEvents(set *appsv1.ReplicaSet, reason string, n int) []string {
	l.Helper()
	var messages []string
	clustertest.Eventually(l, fmt.Sprintf("%s has %d events %s", set.Name, n, reason), func(ctx context.Context) (bool, string, error) {
		events, err := l.client.CoreV1().Events(l.namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fmt.Sprintf("involvedObject.kind=%s,involvedObject.uid=%s,reason=%s", l.kind, set.UID, reason),
		})
		if err != nil {
			return false, "", err
		}
		messages = nil
		for _, event := range events.Items {
			require.Equal(l, l.component, event.Source.Component)
			for range max(event.Count, 1) {
				messages = append(messages, event.Message)
			}
		}
		return len(messages) >= n, fmt.Sprint(messages), nil
	})
	return messages
}
