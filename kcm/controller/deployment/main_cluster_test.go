package deployment_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/kcm-book/kcm-book/kcm/controller/deployment"
	"github.com/kcm-book/kcm-book/kcm/controller/replication"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

const workers = 5

func TestMain(m *testing.M) {
	clustertest.Main(m,
		clustertest.Loop{
			Name: "deployment-controller",
			Start: func(ctx context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory) (func(context.Context), error) {
				c := deployment.NewDeploymentController(ctx, informers.Apps().V1().Deployments(), informers.Apps().V1().ReplicaSets(), informers.Core().V1().Pods(), client)
				return func(ctx context.Context) { c.Run(ctx, workers) }, nil
			},
		},
		clustertest.Loop{
			Name: "replicaset-controller",
			Start: func(ctx context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory) (func(context.Context), error) {
				c := replication.NewReplicaSetController(ctx, informers.Apps().V1().ReplicaSets(), informers.Core().V1().Pods(), client, replication.BurstReplicas)
				return func(ctx context.Context) { c.Run(ctx, workers) }, nil
			},
		},
	)
}

// space is a namespace in which a test works on a deployment named web.
type space struct {
	*testing.T
	client    kubernetes.Interface
	namespace string
}

func newSpace(t *testing.T) space {
	t.Helper()
	return space{t, clustertest.Client(t), clustertest.Namespace(t)}
}

// web returns a deployment of version v1.
func web(replicas int32, changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{}},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64(1)),
					Containers:                    []corev1.Container{{Name: "web"}},
				},
			},
		},
	}
	image("v1")(d)
	for _, change := range changes {
		change(d)
	}
	return d
}

func image(version string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "lab:" + version }
}

func scaledTo(replicas int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas }
}

func surge(maxSurge, maxUnavailable int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge:       new(intstr.FromInt32(maxSurge)),
				MaxUnavailable: new(intstr.FromInt32(maxUnavailable)),
			},
		}
	}
}

func versionOf(template corev1.PodSpec) string { return template.Containers[0].Image[len("lab:"):] }

func (s space) create(d *appsv1.Deployment) {
	s.Helper()
	_, err := s.client.AppsV1().Deployments(s.namespace).Create(s.Context(), d, metav1.CreateOptions{})
	require.NoError(s, err)
}

// change changes the deployment as a user does.
func (s space) change(changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	s.Helper()
	var changed *appsv1.Deployment
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		d, err := s.client.AppsV1().Deployments(s.namespace).Get(s.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, change := range changes {
			change(d)
		}
		changed, err = s.client.AppsV1().Deployments(s.namespace).Update(s.Context(), d, metav1.UpdateOptions{})
		return err
	})
	require.NoError(s, err)
	return changed
}

// state is the deployment and the ReplicaSets of its namespace by version.
type state struct {
	*appsv1.Deployment
	replicaSets map[string]*appsv1.ReplicaSet
}

func (s space) look(ctx context.Context) (state, error) {
	d, err := s.client.AppsV1().Deployments(s.namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return state{}, err
	}
	list, err := s.client.AppsV1().ReplicaSets(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return state{}, err
	}
	seen := state{d, map[string]*appsv1.ReplicaSet{}}
	for _, rs := range list.Items {
		seen.replicaSets[versionOf(rs.Spec.Template.Spec)] = &rs
	}
	return seen, nil
}

func (s state) String() string {
	status := s.Status
	text := fmt.Sprintf("generation %d of %d, %d replicas, %d updated, %d ready, %d available;", status.ObservedGeneration, s.Generation,
		status.Replicas, status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas)
	for _, c := range status.Conditions {
		text += fmt.Sprintf(" %s=%s (%s: %s);", c.Type, c.Status, c.Reason, c.Message)
	}
	for version, rs := range s.replicaSets {
		text += fmt.Sprintf(" ReplicaSet of %s has size %d, %d pods, %d available;", version, *rs.Spec.Replicas, rs.Status.Replicas, rs.Status.AvailableReplicas)
	}
	return text
}

func (s state) size(version string) int32 {
	if rs, ok := s.replicaSets[version]; ok {
		return *rs.Spec.Replicas
	}
	return -1
}

// condition returns "status reason: message", or nothing.
func (s state) condition(kind appsv1.DeploymentConditionType) string {
	for _, c := range s.Status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

// until waits for a state in which the condition holds, and returns it.
func (s space) until(what string, holds func(state) bool) state {
	s.Helper()
	var last state
	clustertest.Eventually(s, what, func(ctx context.Context) (bool, string, error) {
		var err error
		last, err = s.look(ctx)
		if err != nil {
			return false, "", err
		}
		return holds(last), last.String(), nil
	})
	return last
}

// untilDone waits until a version is rolled out and the status says so.
func (s space) untilDone(version string) state {
	s.Helper()
	return s.until(version+" is rolled out", func(seen state) bool {
		status, wanted := seen.Status, *seen.Spec.Replicas
		return status.ObservedGeneration == seen.Generation && seen.size(version) == wanted && status.UpdatedReplicas == wanted &&
			status.Replicas == wanted && status.AvailableReplicas == wanted && status.UnavailableReplicas == 0
	})
}

// observed waits until the loop has looked at the deployment as it is now and
// has nothing left to do about it.
func (s space) observed() state {
	s.Helper()
	return s.until("the spec is observed", func(seen state) bool { return seen.Status.ObservedGeneration == seen.Generation })
}

// untilEvent waits for an event about the deployment.
func (s space) untilEvent(reason, message string) {
	s.Helper()
	clustertest.Eventually(s, fmt.Sprintf("event %s %q is there", reason, message), func(ctx context.Context) (bool, string, error) {
		list, err := s.client.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Deployment"})
		if err != nil {
			return false, "", err
		}
		var seen []string
		for _, e := range list.Items {
			if e.Reason == reason && e.Message == message && e.Source.Component == "deployment-controller" {
				return true, "", nil
			}
			seen = append(seen, e.Reason+" "+e.Message)
		}
		return false, fmt.Sprint(seen), nil
	})
}

// record keeps everything that a watch tells from now on. The returned
// function stops it and returns what was told.
func record[T any](s space, watcher watch.Interface, err error) (stop func() []change[T]) {
	s.Helper()
	require.NoError(s, err)
	var recorded []change[T]
	var running sync.WaitGroup
	running.Go(func() {
		for event := range watcher.ResultChan() {
			if obj, ok := event.Object.(any).(T); ok {
				recorded = append(recorded, change[T]{event.Type, obj})
			}
		}
	})
	stop = sync.OnceValue(func() []change[T] {
		watcher.Stop()
		running.Wait()
		return recorded
	})
	s.Cleanup(func() { stop() })
	return stop
}

type change[T any] struct {
	kind   watch.EventType
	object T
}

func (s space) recordReplicaSets() func() []change[*appsv1.ReplicaSet] {
	watcher, err := s.client.AppsV1().ReplicaSets(s.namespace).Watch(context.Background(), metav1.ListOptions{})
	return record[*appsv1.ReplicaSet](s, watcher, err)
}

func (s space) recordPods() func() []change[*corev1.Pod] {
	watcher, err := s.client.CoreV1().Pods(s.namespace).Watch(context.Background(), metav1.ListOptions{})
	return record[*corev1.Pod](s, watcher, err)
}

func (s space) recordDeployments() func() []change[*appsv1.Deployment] {
	watcher, err := s.client.AppsV1().Deployments(s.namespace).Watch(context.Background(), metav1.ListOptions{})
	return record[*appsv1.Deployment](s, watcher, err)
}
