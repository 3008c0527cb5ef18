package controller

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// panicking is a sync that panics the first times that it is given the key web.
func panicking(times int, seen *calls) func(context.Context, string) error {
	return func(_ context.Context, key string) error {
		if n := seen.note(key); key == "web" && n <= times {
			panic("a defect")
		}
		return nil
	}
}

func TestASyncThatPanicsIsTriedAgainAndHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen, log := newCalls(), newLogged()
		runWith(klog.NewContext(t.Context(), log.Logger), 1, LoopConfig[string]{Sync: panicking(3, seen)}, func(loop *Loop[string]) {
			loop.Add("web")
			loop.Add("db")
			time.Sleep(time.Hour)
		})
		assert.Equal(t, []string{"web", "db", "web", "web", "web"}, seen.list(), "web panics three times, and MaxRetries is 0")
		assert.Equal(t, []time.Duration{0, 0, 5 * time.Millisecond, 15 * time.Millisecond, 35 * time.Millisecond}, seen.times)
		assert.Equal(t, "3 errors in the log", log.errors())
	})
}

func TestAPanicIsLoggedWithItsStackAndItsObjectAndCounted(t *testing.T) {
	t.Parallel()
	registerSyncMetrics()
	before, err := testutil.GetCounterMetricValue(panics)
	require.NoError(t, err)
	log := newLogged()
	err = Recovered(klog.NewContext(t.Context(), log.Logger), func() error { panic("a defect") }, "pod", klog.KRef("ns", "web"))()
	assert.EqualError(t, err, "panic: a defect")
	assert.ErrorIs(t, err, errPanicked)
	assert.Contains(t, log.text(), "a defect")
	assert.Contains(t, log.text(), "ns/web")
	assert.Contains(t, log.text(), "panics_test.go")
	after, err := testutil.GetCounterMetricValue(panics)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, after-before, 1.0)
}

func TestWhatDoesNotPanicReturnsWhatItReturns(t *testing.T) {
	t.Parallel()
	assert.NoError(t, Recovered(t.Context(), func() error { return nil })())
	assert.Equal(t, errSync, Recovered(t.Context(), func() error { return errSync })())
}

// This is not parallel: others go on after a panic.
func TestAPanicEndsTheProcessWhereItIsToCrash(t *testing.T) {
	ReallyCrash.Store(true)
	defer ReallyCrash.Store(false)
	defect := func() error { panic("a defect") }
	assert.PanicsWithValue(t, "a defect", func() { _ = Recovered(t.Context(), defect)() })
}

func TestAHandlerThatMustNotPanicEndsTheProcess(t *testing.T) {
	t.Parallel()
	pods := &informer{}
	Handle(pods, Handlers[*corev1.Pod]{MustNotPanic: true, Add: func(*corev1.Pod) { panic("a defect") }})
	assert.PanicsWithValue(t, "a defect", func() { pods.handler.OnAdd(pod("web", ""), false) })
}

func TestACreationThatPanicsIsOneThatHasFailed(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	n := 0
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if n++; n == 2 {
			panic("a defect")
		}
		return false, nil, nil
	})
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "1"}}
	var pods []*corev1.Pod
	for i := range 3 {
		pods = append(pods, pod(fmt.Sprint("web-", i), "web"))
	}
	expectations := NewExpectations(clock.RealClock{})
	expectations.Expect(owner, len(pods))
	control := NewPodControl(client, record.NewFakeRecorder(10))
	created, err := CreatePods(t.Context(), control, expectations, NewOwnWrites(new(cacheAt("0"))), owner, pods)
	assert.ErrorIs(t, err, errPanicked)
	assert.Equal(t, 2, created)
	for range created {
		expectations.CreationObserved(owner)
	}
	assert.True(t, expectations.Satisfied(owner), "what has panicked is expected no more")
}
