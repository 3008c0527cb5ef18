package job

import (
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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

func TestIndexesThatAreNotBelowCompletionsAnyMoreHideNoOthersFromTheMetric(t *testing.T) {
	t.Parallel()
	job := testJob(indexed, completions(3))
	job.Status.CompletedIndexes, job.Status.Succeeded = "0,1", 2
	require.Equal(t, 1, countIndexes(job, batchv1.JobStatus{CompletedIndexes: "0,4-6", Succeeded: 4}), "index 1 is new, 4 to 6 are gone")
	require.Zero(t, countIndexes(job, batchv1.JobStatus{CompletedIndexes: "0,1", Succeeded: 2}))
}
