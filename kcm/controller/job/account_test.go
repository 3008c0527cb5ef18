package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

func ok(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }

func bad(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }

func going(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: testNow} }

func free(pod *corev1.Pod) { pod.Finalizers = nil }

func at(index int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: fmt.Sprint(index)}
	}
}

func exit(code int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodFailed
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}}
	}
}

// uids writes UIDs as one word.
func uids(list []types.UID) string {
	var words []string
	for _, uid := range list {
		words = append(words, string(uid))
	}
	return cmp.Or(strings.Join(words, " "), "none")
}

// counts is a status with counters and lists.
func counts(succeeded, failed int32, listed ...types.UID) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Status.Succeeded, job.Status.Failed = succeeded, failed
		for _, uid := range listed {
			if strings.HasPrefix(string(uid), "f") {
				job.Status.UncountedTerminatedPods.Failed = append(job.Status.UncountedTerminatedPods.Failed, uid)
			} else {
				job.Status.UncountedTerminatedPods.Succeeded = append(job.Status.UncountedTerminatedPods.Succeeded, uid)
			}
		}
	}
}

func failedFor(indexes string) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Status.FailedIndexes = &indexes }
}

func ignores42(job *batchv1.Job) {
	job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action:      batchv1.PodFailurePolicyActionIgnore,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42}},
	}}}
}

func failsWith(job *batchv1.Job) {
	job.Spec.PodFailurePolicy.Rules[0].Action = batchv1.PodFailurePolicyActionFailJob
}

type pods map[types.UID][]func(*corev1.Pod)

// of makes the pods, sorted by UID.
func (p pods) of(job *batchv1.Job) []*corev1.Pod {
	var list []*corev1.Pod
	for uid, edits := range p {
		list = append(list, podOf(job, uid, edits...))
	}
	slices.SortFunc(list, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return list
}

type edits = []func(*corev1.Pod)

func TestAccount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		job                  *batchv1.Job
		pods                 pods
		verdict              *verdict
		want                 string
	}{
		{"a pod that runs is not written down", "s1 runs", testJob(), pods{"s1": {}}, nil,
			"succeeded 0 + none, failed 0 + none; let go: none"},
		{"who has ended is written down, and may go", "s1 has succeeded, f1 has failed", testJob(), pods{"s1": {ok}, "f1": {bad}}, nil,
			"succeeded 0 + s1, failed 0 + f1; let go: f1 s1"},
		{"who is written down is not written down again", "s1 has succeeded and is in the status", testJob(counts(0, 0, "s1")), pods{"s1": {ok}}, nil,
			"succeeded 0 + s1, failed 0 + none; let go: s1"},
		{"who is written down and has no finalizer is counted", "s1 and f1 are in the status, and have no finalizer", testJob(counts(2, 1, "s1", "f1")),
			pods{"s1": {ok, free}, "f1": {bad, free}}, nil, "succeeded 3 + none, failed 2 + none; let go: none"},
		{"who is written down and is gone is counted", "s1 is in the status, and there is no such pod", testJob(counts(2, 0, "s1")), pods{}, nil,
			"succeeded 3 + none, failed 0 + none; let go: none"},
		{"who has no finalizer was counted before", "s1 has succeeded, and has no finalizer", testJob(counts(1, 0)), pods{"s1": {ok, free}}, nil,
			"succeeded 1 + none, failed 0 + none; let go: none"},
		{"who is being deleted has failed", "f1 runs, and somebody deletes it", testJob(), pods{"f1": {going}}, nil,
			"succeeded 0 + none, failed 0 + f1; let go: f1"},
		{"who is being deleted waits for its phase if the Job does", "f1 runs, and somebody deletes it; podReplacementPolicy is Failed", testJob(onlyFailed),
			pods{"f1": {going}}, nil, "succeeded 0 + none, failed 0 + none; let go: none"},
		{"who has failed and then succeeds has failed", "f1 was deleted, is in the status as failed, and ends with success", testJob(counts(0, 0, "f1")),
			pods{"f1": {going, ok}}, nil, "succeeded 0 + none, failed 0 + f1; let go: f1"},
		{"who has succeeded and then fails has succeeded", "s1 is in the status as succeeded, and shows Failed by now", testJob(counts(0, 0, "s1")),
			pods{"s1": {bad}}, nil, "succeeded 0 + s1, failed 0 + none; let go: s1"},
		{"who is written down may go even if it runs again", "s1 is in the status as succeeded, and runs by now", testJob(counts(0, 0, "s1")),
			pods{"s1": {}}, nil, "succeeded 0 + s1, failed 0 + none; let go: s1"},
		{"who is written down does not fail the Job", "s1 is in the status as succeeded, and ends with exit code 42 by now, with which a Job fails", testJob(ignores42, failsWith, counts(0, 0, "s1")),
			pods{"s1": {exit(42)}}, nil, "succeeded 0 + s1, failed 0 + none; let go: s1"},
		{"a failure that a rule ignores is let go of and not counted", "f1 ends with exit code 42, f2 with 1", testJob(ignores42),
			pods{"f1": {exit(42)}, "f2": {exit(1)}}, nil, "succeeded 0 + none, failed 0 + f2; let go: f1 f2"},
		{"who fails the Job is kept until the Job has failed", "f1 ends with exit code 42, with which the Job fails, and another pod could not be told to go", testJob(ignores42, failsWith), pods{"f1": {exit(42)}}, nil,
			"succeeded 0 + none, failed 0 + none; let go: none"},
		{"with a failed Job what runs has failed", "f1 runs, and the Job fails", testJob(), pods{"f1": {}}, fail("BackoffLimitExceeded", ""),
			"succeeded 0 + none, failed 0 + f1; let go: f1"},
		{"with a Job that has succeeded what runs has not failed", "f1 runs, and the Job meets its success policy", testJob(), pods{"f1": {}}, enough,
			"succeeded 0 + none, failed 0 + none; let go: f1"},
		{"an index is written down in place of a UID", "s1 has succeeded for index 1 and s2 for index 2", testJob(indexed), pods{"s1": {ok, at(1)}, "s2": {ok, at(2)}}, nil,
			"succeeded 2 + none, failed 0 + none, indexes 1,2; let go: s1 s2"},
		{"an index that succeeds twice is one", "s1 and s2 have succeeded for index 1", testJob(indexed), pods{"s1": {ok, at(1)}, "s2": {ok, at(1)}}, nil,
			"succeeded 1 + none, failed 0 + none, indexes 1; let go: s1 s2"},
		{"of a Job that was scaled down fewer indexes are completed", "five indexes, of which 2-4 were completed, have become two, which may both run", testJob(indexed, completions(2), completed("2-4"), counts(3, 0)), pods{"s1": {ok, at(1)}}, nil,
			"succeeded 1 + none, failed 0 + none, indexes 1; let go: s1"},
		{"but the counter does not fall while not all may run at once", "five indexes, of which 2-4 were completed, have become two, of which one may run", testJob(indexed, completions(2), parallelism(1), completed("2-4"), counts(3, 0)), pods{"s1": {ok, at(1)}}, nil,
			"succeeded 3 + none, failed 0 + none, indexes 1; let go: s1"},
		{"an index that is completed cannot fail", "index 1 is completed, and f1, which was for it, has failed", testJob(indexed, completed("1"), counts(1, 0)), pods{"f1": {bad, at(1)}}, nil,
			"succeeded 1 + none, failed 0 + none, indexes 1; let go: f1"},
		{"not with its Job either", "index 1 is completed, f1 runs for it, and the Job fails", testJob(indexed, completed("1"), counts(1, 0)), pods{"f1": {at(1)}}, fail("BackoffLimitExceeded", ""),
			"succeeded 1 + none, failed 0 + none, indexes 1; let go: f1"},
		{"an index that has succeeded has not failed", "s1 has succeeded and f1 has failed for index 1, which may not fail again", testJob(indexed, perIndex(0)), pods{"s1": {ok, at(1)}, "f1": {bad, at(1)}}, nil,
			"succeeded 1 + none, failed 0 + f1, indexes 1 and failed ; let go: f1 s1"},
		{"an index that has failed for good does not succeed", "index 1 has failed, and s1 succeeds for it", testJob(indexed, perIndex(0), failedFor("1")), pods{"s1": {ok, at(1)}}, nil,
			"succeeded 0 + none, failed 0 + none, indexes  and failed 1; let go: s1"},
		{"who has no index counts for nothing", "s1 has succeeded without an index, f1 has failed for index 7 of 3", testJob(indexed),
			pods{"s1": {ok}, "f1": {bad, at(7)}}, nil, "succeeded 0 + none, failed 0 + none, indexes ; let go: f1 s1"},
		{"who is to be replaced is kept until then", "f1 has failed for index 1, which may fail twice more", testJob(indexed, perIndex(2)),
			pods{"f1": {bad, at(1)}}, nil, "succeeded 0 + none, failed 0 + none, indexes  and failed ; let go: none"},
		{"an index that has failed for good is written down", "f1 has failed for index 1, which may not fail again", testJob(indexed, perIndex(0)),
			pods{"f1": {bad, at(1)}}, nil, "succeeded 0 + none, failed 0 + f1, indexes  and failed 1; let go: f1"},
		{"who was replaced may go", "f1 has failed for index 1, and a2 runs for it", testJob(indexed, perIndex(2)),
			pods{"f1": {bad, at(1)}, "a2": {at(1)}}, nil, "succeeded 0 + none, failed 0 + f1, indexes  and failed ; let go: f1"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			seen := observed{job: test.job, pods: test.pods.of(test.job), mayAct: true, now: testNow}
			status := *test.job.Status.DeepCopy()
			var names []types.UID
			for _, pod := range account(seen, count(seen), test.verdict, &status) {
				names = append(names, pod.UID)
			}
			got := fmt.Sprintf("succeeded %d + %s, failed %d + %s", status.Succeeded, uids(status.UncountedTerminatedPods.Succeeded),
				status.Failed, uids(status.UncountedTerminatedPods.Failed))
			if isIndexed(test.job) {
				got += ", indexes " + status.CompletedIndexes
			}
			if status.FailedIndexes != nil {
				got += " and failed " + *status.FailedIndexes
			}
			assert.Equal(t, test.want, got+"; let go: "+uids(names), "the status, as counter + list, and who may be let go: %s", test.situation)
		})
	}
	t.Run("never more than 500 stand in the status, and those that stand there go first", func(t *testing.T) {
		t.Parallel()
		job := testJob(counts(0, 0, "s599", "s600"))
		var list []*corev1.Pod
		for i := range 601 {
			list = append(list, podOf(job, types.UID(fmt.Sprint("s", i)), ok))
		}
		seen := observed{job: job, pods: list}
		status := *job.Status.DeepCopy()
		release := account(seen, count(seen), nil, &status)
		assert.Len(t, status.UncountedTerminatedPods.Succeeded, Burst, "pods in the status: 601 have succeeded, two of them stand there")
		assert.Equal(t, []types.UID{"s599", "s600"}, []types.UID{release[0].UID, release[1].UID}, "who is let go first")
	})
}

func TestSettle(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour string
		tracked   []types.UID
		want      string
	}{
		{"who has its finalizer stays in the list", []types.UID{"s1", "s2", "f1"}, "succeeded 5 + s1 s2, failed 1 + f1"},
		{"who has it no longer is counted", []types.UID{"s2"}, "succeeded 6 + s2, failed 2 + none"},
		{"all are counted at once", nil, "succeeded 7 + none, failed 2 + none"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			before := testJob(counts(5, 1, "s1", "s2", "f1")).Status
			status := before
			settle(&status, sets.New(test.tracked...))
			assert.Equal(t, test.want, fmt.Sprintf("succeeded %d + %s, failed %d + %s", status.Succeeded, uids(status.UncountedTerminatedPods.Succeeded),
				status.Failed, uids(status.UncountedTerminatedPods.Failed)), "the status: s1, s2 and f1 are in the lists, and these have finalizers: %s", uids(test.tracked))
		})
	}
	t.Run("the lists that were there stay as they were", func(t *testing.T) {
		t.Parallel()
		before := testJob(counts(5, 1, "s1", "s2", "f1")).Status
		status := before
		settle(&status, sets.New[types.UID]("s2"))
		assert.Equal(t, "s1 s2 and f1", uids(before.UncountedTerminatedPods.Succeeded)+" and "+uids(before.UncountedTerminatedPods.Failed),
			"the lists that the caller had, after s1 and f1, which have no finalizers, were counted in the new status")
	})
	t.Run("a status without lists has empty ones afterwards", func(t *testing.T) {
		t.Parallel()
		status := batchv1.JobStatus{Succeeded: 5, Failed: 1}
		settle(&status, sets.New[types.UID]("s1"))
		assert.Equal(t, batchv1.JobStatus{Succeeded: 5, Failed: 1, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{}}, status,
			"the status, which had counters and no lists, while s1 has its finalizer")
	})
}
