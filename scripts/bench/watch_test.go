package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

func testPod(name string, ready corev1.ConditionStatus) *corev1.Pod {
	pod := newPod("ns", name)
	pod.UID = types.UID(name)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	return pod
}

func TestPodsAreCounted(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(testPod("a", corev1.ConditionFalse))
	w := observe(t.Context(), client)
	pods := client.CoreV1().Pods("ns")
	tried := &trial{ctx: t.Context(), watch: w}
	until := func(want tally) {
		t.Helper()
		require.NoError(t, awaitFailure(tried, want))
	}
	until(tally{existing: 1, ready: 0})
	_, err := pods.Create(t.Context(), testPod("b", corev1.ConditionTrue), metav1.CreateOptions{})
	require.NoError(t, err)
	until(tally{existing: 2, ready: 1})
	for range 2 { // a pod that stays Ready counts once
		_, err = pods.UpdateStatus(t.Context(), testPod("a", corev1.ConditionTrue), metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	until(tally{existing: 2, ready: 2, serving + "web:1": 2})
	_, err = pods.UpdateStatus(t.Context(), testPod("a", corev1.ConditionFalse), metav1.UpdateOptions{})
	require.NoError(t, err)
	until(tally{existing: 2, ready: 1})
	require.NoError(t, pods.Delete(t.Context(), "b", metav1.DeleteOptions{}))
	until(tally{existing: 1, ready: 0, gone: 1})
}

func TestPodsThatGoLongAfterTheirNodeHasGotTheTaintGoTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &watch{objects: map[types.UID]tally{}, counts: map[string]tally{}, asked: map[string]time.Time{}}
		node := plainNode(0)
		node.Spec.Taints = []corev1.Taint{{Effect: corev1.TaintEffectNoSchedule}, {Effect: corev1.TaintEffectNoExecute}}
		w.change(node, tallyOf(node), nil)
		require.Equal(t, tally{ranged: 0, taints + "NoSchedule": 1, taints + "NoExecute": 1}, w.in(""))
		pod := testPod("a", corev1.ConditionTrue)
		pod.Spec.NodeName = node.Name
		for _, later := range []time.Duration{tolerated + tolerance, time.Nanosecond} {
			time.Sleep(later)
			w.change(node, tallyOf(node), nil) // that it still has the taint is no news
			w.change(pod, nil, tally{gone: 1})
		}
		require.Equal(t, 1, w.in("ns")[tooLate])
	})
}

func TestARolloutIsCompleteWhenItsStatusSaysSo(t *testing.T) {
	t.Parallel()
	d := newDeployment("ns", "web", 3)
	d.Generation = 2
	client := fake.NewClientset(d)
	w := observe(t.Context(), client)
	tried := &trial{ctx: t.Context(), watch: w}
	set := func(status appsv1.DeploymentStatus) {
		d.Status = status
		_, err := client.AppsV1().Deployments("ns").Update(t.Context(), d, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	all := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}
	for name, change := range map[string]func(*appsv1.DeploymentStatus){
		"the spec was not seen":       func(s *appsv1.DeploymentStatus) { s.ObservedGeneration = 1 },
		"an old pod is left":          func(s *appsv1.DeploymentStatus) { s.Replicas = 4 },
		"a new pod is missing":        func(s *appsv1.DeploymentStatus) { s.UpdatedReplicas = 2 },
		"a new pod does not work yet": func(s *appsv1.DeploymentStatus) { s.AvailableReplicas = 2 },
	} {
		set(all)
		require.NoError(t, awaitFailure(tried, tally{complete: 1, complete + "web:1": 1}))
		status := all
		change(&status)
		set(status)
		require.NoError(t, awaitFailure(tried, tally{complete: 0}), name)
	}
}

func TestAMomentIsTheTimeOfTheChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &watch{objects: map[types.UID]tally{}, counts: map[string]tally{}}
		twice := w.when("ns", tally{gone: 2})
		for range 3 {
			time.Sleep(time.Second)
			w.change(testPod("web", corev1.ConditionTrue), nil, tally{gone: 1})
		}
		tried := &trial{ctx: t.Context(), watch: w}
		assert.Equal(t, time.Second, time.Since(tried.await(twice)))
	})
}

// awaitFailure is the error of waiting in namespace ns.
func awaitFailure(t *trial, want tally) (err error) {
	defer catch(&err)
	t.await(t.when("ns", want))
	return nil
}

func TestAWaitEndsWithWhatWasSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &watch{counts: map[string]tally{"ns": {gone: 2}}}
		assert.EqualError(t, awaitFailure(&trial{ctx: t.Context(), watch: w}, tally{gone: 3}),
			`waiting for map[objects gone:3] in namespace "ns", with map[objects gone:2]: given up after 15m0s`)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		assert.ErrorIs(t, awaitFailure(&trial{ctx: ctx, watch: w}, tally{gone: 3}), context.Canceled)
	})
}

func TestWhatFailsInParallelFailsAsAWhole(t *testing.T) {
	t.Parallel()
	fail := func() (err error) {
		defer catch(&err)
		inParallel(10, 2, func(i int) {
			if i == 3 {
				must(errors.New("the fourth"))
			}
		})
		return nil
	}
	assert.EqualError(t, fail(), "the fourth")
	assert.Panics(t, func() {
		var err error
		defer catch(&err)
		panic("not a failure")
	})
}

func TestWhatIsWrittenOfASliceThoughNoReadyPodComesOrGoesIsCounted(t *testing.T) {
	t.Parallel()
	ready := true
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "slice"},
		Endpoints: []discoveryv1.Endpoint{{TargetRef: &corev1.ObjectReference{UID: "a"},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}}
	client := fake.NewClientset(slice)
	w := observe(t.Context(), client)
	write := func() {
		_, err := client.DiscoveryV1().EndpointSlices("ns").Update(t.Context(), slice.DeepCopy(), metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	tried := &trial{ctx: t.Context(), watch: w}
	slice.Labels = map[string]string{"a": "b"}
	write()
	// Of what happens before it watches, an informer of this API server would hear in the end, and as one change.
	require.NoError(t, awaitFailure(tried, tally{writesForNobody: 1}))
	ready = false
	write()
	want := tally{slicesThere: 1, endpointsInAll: 1, readyInSlices: 0, writesForNobody: 1}
	assert.NoError(t, awaitFailure(tried, want))
}

func TestAggregatedRolesCountForTheirRuleAndRequestsForTheirCertificate(t *testing.T) {
	t.Parallel()
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{{Verbs: []string{"first"}}}}
	assert.Empty(t, tallyOf(role), "a plain role has its rule from a user")
	role.AggregationRule = &rbacv1.AggregationRule{}
	assert.Equal(t, tally{ruled + "first": 1}, tallyOf(role))
	role.Rules = nil
	assert.Empty(t, tallyOf(role))
	csr := &certificatesv1.CertificateSigningRequest{}
	assert.Equal(t, tally{signed: 0}, tallyOf(csr))
	csr.Status.Certificate = []byte("-----BEGIN CERTIFICATE-----")
	assert.Equal(t, tally{signed: 1}, tallyOf(csr))
}
