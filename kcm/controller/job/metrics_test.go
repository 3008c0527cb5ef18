package job

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics/testutil"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func TestTheMetricOfPodsSaysWhatTheyAreCreatedFor(t *testing.T) {
	t.Parallel()
	going := []*corev1.Pod{podOf(testJob(), "going")}
	tests := []struct {
		sentence string
		edit     func(*batchv1.Job)
		tally    tally
		want     string
	}{
		{"nothing has failed", completions(3), tally{succeeded: 2}, "new"},
		{"nothing has failed, and only failed pods are replaced", onlyFailed, tally{terminating: going}, "recreate_terminating_or_failed"},
		{"a pod is on its way out", completions(3), tally{terminating: going}, "recreate_terminating_or_failed"},
		{"a pod has failed", completions(3), tally{failed: 1}, "recreate_terminating_or_failed"},
		{"a pod has failed, and only failed pods are replaced", onlyFailed, tally{failed: 1}, "recreate_failed"},
	}
	for _, test := range tests {
		require.Equal(t, test.want, reasonToCreate(testJob(test.edit), test.tally), test.sentence)
	}
}

// answer is what an API server says to whoever creates a pod.
type answer struct {
	controller.PodControl
	err error
}

func (a answer) Create(_ context.Context, _ runtime.Object, pod *corev1.Pod) (*corev1.Pod, error) {
	return pod, a.err
}

func TestEachCreationIsCountedByWhatCameOfIt(t *testing.T) {
	t.Parallel()
	goes := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("namespace is being terminated"))
	goes.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	tests := map[string]struct {
		err               error
		succeeded, failed float64
	}{
		"a pod that was created has succeeded":                         {succeeded: 1},
		"a pod that was refused has failed":                            {err: errors.New("exceeded quota"), failed: 1},
		"in a namespace that is being deleted a refusal is no failure": {err: goes},
	}
	for sentence, tt := range tests {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			registerMetrics()
			created := func(status string) float64 {
				n, err := testutil.GetCounterMetricValue(podsCreated.WithLabelValues(sentence, status))
				require.NoError(t, err)
				return n
			}
			succeeded, failed := created("succeeded"), created("failed")
			_, err := counted{answer{err: tt.err}, sentence}.Create(t.Context(), testJob(), podOf(testJob(), "web"))
			require.Equal(t, tt.err, err)
			require.Equal(t, succeeded+tt.succeeded, created("succeeded"))
			require.Equal(t, failed+tt.failed, created("failed"))
		})
	}
}

func TestIndexesThatAreNotBelowCompletionsAnyMoreHideNoOthersFromTheMetric(t *testing.T) {
	t.Parallel()
	job := testJob(indexed, completions(3))
	job.Status.CompletedIndexes, job.Status.Succeeded = "0,1", 2
	require.Equal(t, 1, countIndexes(job, batchv1.JobStatus{CompletedIndexes: "0,4-6", Succeeded: 4}), "index 1 is new, 4 to 6 are gone")
	require.Zero(t, countIndexes(job, batchv1.JobStatus{CompletedIndexes: "0,1", Succeeded: 2}))
}
