package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func endedAt(seconds int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			FinishedAt: metav1.NewTime(testNow.Add(time.Duration(seconds) * time.Second))}}}}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		pods                 pods
		then                 pods
		want                 time.Duration
	}{
		{"without a failure nothing waits", "s1 has succeeded", pods{"s1": {ok, endedAt(0)}}, nil, 0},
		{"after a failure ten seconds have to pass", "f1 failed just now", pods{"f1": {bad, endedAt(0)}}, nil, 10 * time.Second},
		{"they count from the end of the pod", "f1 failed 4 s ago", pods{"f1": {bad, endedAt(-4)}}, nil, 6 * time.Second},
		{"they pass", "f1 failed 11 s ago", pods{"f1": {bad, endedAt(-11)}}, nil, 0},
		{"each failure doubles them", "three failed, the last of them just now", pods{"f1": {bad, endedAt(-90)}, "f2": {bad, endedAt(-60)}, "f3": {bad, endedAt(0)}}, nil, 40 * time.Second},
		{"a success ends the series", "f1 failed, s1 succeeded, f2 failed just now", pods{"f1": {bad, endedAt(-9)}, "s1": {ok, endedAt(-5)}, "f2": {bad, endedAt(0)}}, nil, 10 * time.Second},
		{"it is the end that counts, not when it was counted", "f1 failed and has no finalizer any more", pods{"f1": {bad, free, endedAt(0)}}, nil, 10 * time.Second},
		{"a failed pod that is gone is not forgotten", "f1 failed just now, and is gone", pods{"f1": {bad, endedAt(0)}}, pods{}, 10 * time.Second},
		{"a pod that is seen twice has failed once", "f1 is seen again", pods{"f1": {bad, endedAt(0)}}, pods{"f1": {bad, free, endedAt(0)}}, 10 * time.Second},
		{"of a pod that shows another end later this one counts", "f1 was deleted and is noted with that, 9 s ago; then its container has ended, 2 s ago", pods{"f1": {going, endedAt(-9)}}, pods{"f1": {bad, going, endedAt(-2)}}, 8 * time.Second},
		{"a success that is seen later ends the series, too", "f1 failed 5 s ago, and then it is seen that s1 succeeded 3 s ago", pods{"f1": {bad, endedAt(-5)}}, pods{"s1": {ok, endedAt(-3)}}, 0},
		{"a success that is gone is not forgotten", "s1 succeeded 3 s ago and is gone, and then it is seen that f1 failed 5 s ago", pods{"s1": {ok, endedAt(-3)}}, pods{"f1": {bad, endedAt(-5)}}, 0},
		{"a pod that the loop has stopped has not failed", "p1 is being deleted, and has no finalizer", pods{"p1": {going, free}}, nil, 0},
		{"a pod that somebody deletes has failed", "p1 is being deleted", pods{"p1": {going}}, nil, 10 * time.Second},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			noted := failures{}.note(testJob(), test.pods.of(testJob()))
			if test.then != nil {
				noted = noted.note(testJob(), test.then.of(testJob()))
			}
			assert.Equal(t, test.want, noted.wait(testNow), "how long until the next pod may be created: %s", test.situation)
		})
	}
	t.Run("what was noted before stays as it was", func(t *testing.T) {
		t.Parallel()
		before := failures{}.note(testJob(), pods{"f1": {bad, endedAt(-5)}}.of(testJob()))
		before.note(testJob(), pods{"f2": {bad, endedAt(-3)}, "s1": {ok, endedAt(-1)}}.of(testJob()))
		assert.Equal(t, map[types.UID]time.Time{"f1": testNow.Add(-5 * time.Second)}, before.at, "the failures noted at first, of f1 alone, after f2 and s1 were noted")
	})
	t.Run("ten minutes are the longest pause", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, []time.Duration{320 * time.Second, 10 * time.Minute, 10 * time.Minute},
			[]time.Duration{wait(6, testNow, testNow), wait(7, testNow, testNow), wait(1000, testNow, testNow)}, "the pauses after 6, 7 and 1000 failures")
	})
}
