package replication

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// bornAt returns a pod that was created so long after testNow.
func bornAt(after time.Duration, edit func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("born-at-%v", after), CreationTimestamp: metav1.NewTime(testNow.Add(after)),
	}}
	edit(pod)
	return pod
}

func isRejected(pod *corev1.Pod) {
	pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Pod was rejected: no cpu"}
}

func isRunning(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning }

func hasCrashed(pod *corev1.Pod) {
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodFailed, []corev1.ContainerStatus{{State: ended}}
}

func TestThePauseAfterARejectionIsAsLongAsThereHaveBeenRejections(t *testing.T) {
	t.Parallel()
	rejectedAt := func(seconds ...int) (pods []*corev1.Pod) {
		for _, s := range seconds {
			pods = append(pods, bornAt(time.Duration(s)*time.Second, isRejected))
		}
		return pods
	}
	for name, tt := range map[string]struct {
		seen observed
		want string
	}{
		"without a rejection there is none":                   {observed{failed: []*corev1.Pod{bornAt(0, hasCrashed)}}, "none"},
		"after the first it is a second":                      {observed{failed: rejectedAt(0)}, "1s after born-at-0s"},
		"however many are rejected at a time":                 {observed{failed: rejectedAt(0, 0, 0)}, "1s after born-at-0s"},
		"it doubles":                                          {observed{failed: rejectedAt(0, 1, 2, 4, 8)}, "8s after born-at-8s"},
		"in whatever order they are listed":                   {observed{failed: rejectedAt(4, 0, 2)}, "4s after born-at-4s"},
		"up to five minutes":                                  {observed{failed: rejectedAt(0, 300, 600, 900)}, "5m0s after born-at-15m0s"},
		"one of an hour ago does not count":                   {observed{failed: rejectedAt(0, 3600, 3604)}, "4s after born-at-1h0m4s"},
		"a pod that runs ends it":                             {observed{failed: rejectedAt(0, 4), active: []*corev1.Pod{bornAt(8*time.Second, isRunning)}}, "none"},
		"and so does one that has run":                        {observed{failed: append(rejectedAt(0, 4), bornAt(8*time.Second, hasCrashed))}, "none"},
		"after which it begins anew":                          {observed{failed: append(rejectedAt(0, 4, 10), bornAt(8*time.Second, hasCrashed))}, "1s after born-at-10s"},
		"one that has run since before does not":              {observed{failed: rejectedAt(4, 8), active: []*corev1.Pod{bornAt(0, isRunning)}}, "4s after born-at-8s"},
		"nor does one of which nobody knows yet what it does": {observed{failed: rejectedAt(0, 4), active: []*corev1.Pod{bornAt(8*time.Second, func(*corev1.Pod) {})}}, "4s after born-at-4s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := "none"
			if last, pause := rejection(tt.seen); last != nil {
				got = fmt.Sprintf("%v after %s", pause, last.Name)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

// A node rejects each pod as soon as it is created. Time is that of a synctest
// bubble.
func TestRejectedPodsAreReplacedEverMoreSlowlyAndTheUserIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		events := record.NewFakeRecorder(1000)
		c := testController(nil)
		c.clock, c.events = clock.RealClock{}, &controller.Events{EventRecorder: events}
		start, set := time.Now(), testSet(1)
		var created []time.Duration
		var failed []*corev1.Pod
		c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{Sync: func(context.Context, cache.ObjectName) error {
			p := c.holdBack(observed{set: set, failed: failed, now: c.clock.Now()}, plan{create: 1})
			if p.create > 0 {
				created = append(created, time.Since(start))
				pod := bornAt(0, isRejected)
				pod.CreationTimestamp = metav1.Now()
				failed = append(failed, pod)
				c.loop.Add(cache.MetaObjectToName(set)) // the news of its end
			}
			return nil
		}})
		c.loop.Add(cache.MetaObjectToName(set))
		c.loop.Run(ctx, 1)
		assert.Equal(t, "[0s 1s 2s 4s 8s 16s 32s]", fmt.Sprint(created[:7]))
		assert.Less(t, len(created), 25, "in an hour")
		assert.Equal(t, "Warning PodRejected Pod born-at-0s was rejected before it could run "+
			"(OutOfcpu: Pod was rejected: no cpu); the next one is created 1s after it", <-events.Events)
	})
}
