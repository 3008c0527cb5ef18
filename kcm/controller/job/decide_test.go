package job

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// told writes a plan in words.
func told(p plan) string {
	var parts []string
	if n := len(p.create); n > 0 {
		text := fmt.Sprintf("create %d", n)
		for _, pod := range p.create {
			if index := pod.Labels[batchv1.JobCompletionIndexAnnotation]; index != "" {
				text += " #" + index
			}
		}
		parts = append(parts, text)
	}
	if len(p.delete) > 0 {
		var names []types.UID
		for _, pod := range p.delete {
			names = append(names, pod.UID)
		}
		text := "delete " + uids(names)
		if p.uncounted {
			text = "stop " + uids(names)
		}
		parts = append(parts, text)
	}
	if p.wait > 0 {
		parts = append(parts, "wait "+p.wait.String())
	}
	if p.verdict != nil {
		parts = append(parts, fmt.Sprintf("%s: %s", p.verdict.condition, p.verdict.reason))
	}
	return strings.Join(append(parts, "")[:max(len(parts), 1)], "; ")
}

func readyPod(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
}

func restarted(times int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: times}} }
}

func startedAgo(d time.Duration) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Status.StartTime = &metav1.Time{Time: testNow.Add(-d)} }
}

func deadline(seconds int64) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Spec.ActiveDeadlineSeconds = &seconds }
}

func onFailure(job *batchv1.Job) {
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
}

func says(condition batchv1.JobConditionType, reason string) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: condition, Status: corev1.ConditionTrue, Reason: reason})
	}
}

func completed(indexes string) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Status.CompletedIndexes = indexes }
}

func enoughWith(indexes *string, count *int32) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: indexes, SucceededCount: count}}}
	}
}

func beingDeleted(job *batchv1.Job) { job.DeletionTimestamp = &metav1.Time{Time: testNow} }

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		job                  *batchv1.Job
		pods                 pods
		want                 string
	}{
		{"as many pods are created as may run at a time", "3 completions, 2 at a time", testJob(), pods{}, "create 2"},
		{"no more than there are completions left", "2 of 3 have succeeded, 2 at a time", testJob(counts(2, 0)), pods{}, "create 1"},
		{"a pod that waits in the status has succeeded", "s1 and s2 are in the status, and have their finalizers", testJob(counts(0, 0, "s1", "s2")), pods{"s1": {ok}, "s2": {ok}}, "create 1"},
		{"also if it shows Failed by now", "s1 is in the status as succeeded and has failed since, and none may fail", testJob(backoffLimit(0), counts(0, 0, "s1")), pods{"s1": {exit(1), endedAt(-20)}, "p1": {}}, "create 1"},
		{"nor if it runs again, and is restarted", "s1 is in the status as succeeded, runs since and was restarted 9 times, of 6 that are let pass", testJob(onFailure, counts(0, 0, "s1")), pods{"s1": {restarted(9)}, "p1": {}}, ""},
		{"and no rule fails the Job for it", "s1 is in the status as succeeded and ends with 42 since, with which a Job fails", testJob(ignores42, failsWith, counts(0, 0, "s1")), pods{"s1": {exit(42)}, "p1": {}}, "create 1"},
		{"a pod that the status does not know has succeeded", "s1 and s2 have succeeded", testJob(), pods{"s1": {ok}, "s2": {ok}}, "create 1"},
		{"a pod that is being deleted is replaced", "p1 runs, p2 is being deleted, 20 s ago", testJob(), pods{"p1": {}, "p2": {going, endedAt(-20)}}, "create 1"},
		{"or not before it has ended", "p1 runs, p2 is being deleted, and podReplacementPolicy is Failed", testJob(onlyFailed), pods{"p1": {}, "p2": {going}}, ""},
		{"after a failure there is a pause", "f1 has failed just now", testJob(), pods{"f1": {bad, endedAt(0)}}, "wait 10s"},
		{"too many are stopped, and have not failed", "parallelism is 1, and two run, one of them ready", testJob(parallelism(1)), pods{"p1": {readyPod}, "p2": {}}, "stop p2"},
		{"a Job that is suspended stops all", "two run", testJob(suspended), pods{"p1": {}, "p2": {}}, "stop p1 p2"},
		{"a Job that is being deleted creates nothing", "one runs", testJob(beingDeleted), pods{"p1": {}}, ""},
		{"all have succeeded", "3 of 3 have", testJob(counts(3, 0)), pods{}, "SuccessCriteriaMet: CompletionsReached"},
		{"what runs on is stopped", "3 of 3 have succeeded, and p1 runs", testJob(counts(3, 0)), pods{"p1": {}}, "stop p1; SuccessCriteriaMet: CompletionsReached"},
		{"without completions one is enough, and the others may end", "s1 has succeeded, and p1 runs", testJob(withoutCompletions), pods{"s1": {ok}, "p1": {}}, ""},
		{"without completions it is done when the last has ended", "s1 has succeeded, and f1 has failed", testJob(withoutCompletions), pods{"s1": {ok, endedAt(1)}, "f1": {bad}}, "SuccessCriteriaMet: CompletionsReached"},
		{"each index gets one pod", "index 0 has succeeded, index 1 runs", testJob(indexed, parallelism(3), completed("0")), pods{"p1": {at(1)}}, "create 1 #2"},
		{"a second pod for an index is stopped", "p1 and p2 run for index 1, p2 is ready", testJob(indexed), pods{"p1": {at(1)}, "p2": {at(1), readyPod}}, "stop p1"},
		{"a pod without an index is stopped", "p1 has none", testJob(indexed), pods{"p1": {}}, "stop p1"},

		{"too many failures end it", "7 have failed, and 6 may", testJob(counts(0, 6)), pods{"f1": {bad}, "p1": {}}, "delete p1; FailureTarget: BackoffLimitExceeded"},
		{"as many failures as may be do not end it", "6 have failed long ago, and 6 may", testJob(counts(0, 6)), pods{}, "create 2"},
		{"restarts count where containers are restarted", "the containers were restarted 6 times, and restartPolicy is OnFailure", testJob(onFailure), pods{"p1": {restarted(6)}}, "delete p1; FailureTarget: BackoffLimitExceeded"},
		{"where they are not, they do not", "the containers were restarted 6 times, and restartPolicy is Never", testJob(parallelism(1)), pods{"p1": {restarted(6)}}, ""},
		{"time runs out", "started 60 s ago, may take 60", testJob(startedAgo(time.Minute), deadline(60)), pods{"p1": {}}, "delete p1; FailureTarget: DeadlineExceeded"},
		{"it is looked at again when time runs out", "started 50 s ago, may take 60", testJob(parallelism(1), startedAgo(50*time.Second), deadline(60)), pods{"p1": {}}, "wait 10s"},
		{"a time of ages does not run out", "started 60 s ago, may take as many seconds as there are", testJob(parallelism(1), startedAgo(time.Minute), deadline(math.MaxInt64)), pods{"p1": {}}, "wait 2562047h46m16s"},
		{"while it is suspended no time runs", "started 90 s ago, may take 60, is suspended", testJob(suspended, startedAgo(90*time.Second), deadline(60)), pods{}, ""},
		{"failure comes before success", "all have succeeded, and more have failed than may", testJob(counts(3, 7)), pods{}, "FailureTarget: BackoffLimitExceeded"},
		{"what was said stands", "SuccessCriteriaMet was written, and now more have failed than may", testJob(counts(3, 7), says(batchv1.JobSuccessCriteriaMet, "SuccessPolicy")), pods{}, "SuccessCriteriaMet: SuccessPolicy"},
		{"a rule ends it at once", "f1 ends with exit code 42, and FailJob is about that", testJob(ignores42, failsWith), pods{"f1": {exit(42)}, "p1": {}}, "delete p1; FailureTarget: PodFailurePolicy"},
		{"an index that has failed is not tried again", "index 1 has failed for good", testJob(indexed, parallelism(3), perIndex(0), backoffLimit(100)), pods{"f1": {bad, at(1)}}, "create 2 #0 #2"},
		{"an index waits for itself", "index 1 failed just now, and may again", testJob(indexed, parallelism(3), perIndex(2), backoffLimit(100)), pods{"f1": {bad, at(1), endedAt(0)}}, "create 2 #0 #2; wait 10s"},
		{"and the others have its place meanwhile", "two of five may run, index 0 and 1 failed just now, and may again", testJob(indexed, completions(5), perIndex(2), backoffLimit(100)), pods{"f0": {bad, at(0), endedAt(0)}, "f1": {bad, at(1), endedAt(-4)}}, "create 2 #2 #3; wait 6s"},
		{"after its pause it is the first again", "two of five may run, index 0 failed 11 s ago", testJob(indexed, completions(5), perIndex(2), backoffLimit(100)), pods{"f0": {bad, at(0), endedAt(-11)}}, "create 2 #0 #1"},
		{"when all indexes have ended and one has failed, so has it", "index 0 and 2 have succeeded, index 1 has failed", testJob(indexed, perIndex(0), backoffLimit(100), completed("0,2")), pods{"f1": {bad, at(1)}}, "FailureTarget: FailedIndexes"},
		{"some indexes may be enough", "index 0 and 2 have succeeded, which are named", testJob(indexed, completed("0,2"), enoughWith(new("0,2"), nil)), pods{"p1": {at(1)}}, "delete p1; SuccessCriteriaMet: SuccessPolicy"},
		{"a number of named indexes may be enough", "0-2 are named, two of them are asked for, and index 1 has succeeded", testJob(indexed, parallelism(1), completed("1"), enoughWith(new("0-2"), new(int32(2)))), pods{"p0": {at(0)}}, ""},
		{"a number of any indexes may be enough", "two are asked for, and two have succeeded", testJob(indexed, completed("1,2"), enoughWith(nil, new(int32(2)))), pods{}, "SuccessCriteriaMet: SuccessPolicy"},
		{"a rule that asks for none is met by any", "0-1 are named, none of them is asked for, and index 2 has succeeded", testJob(indexed, completed("2"), enoughWith(new("0-1"), new(int32(0)))), pods{"p0": {at(0)}}, "delete p0; SuccessCriteriaMet: SuccessPolicy"},
		{"but not before one has succeeded", "0-1 are named, none of them is asked for, and none has succeeded", testJob(indexed, enoughWith(new("0-1"), new(int32(0)))), pods{"p0": {at(0)}, "p1": {at(1)}}, ""},
		{"also where it names none", "none is asked for, and index 2 has succeeded", testJob(indexed, completed("2"), enoughWith(nil, new(int32(0)))), pods{"p0": {at(0)}}, "delete p0; SuccessCriteriaMet: SuccessPolicy"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			list := test.pods.of(test.job)
			seen := observed{job: test.job, pods: list, mayAct: true, now: testNow, failures: failures{}.note(test.job, list)}
			assert.Equal(t, test.want, told(decide(seen, count(seen))), "what is to be done: %s", test.situation)
		})
	}
	t.Run("what it is not sure of it leaves", func(t *testing.T) {
		t.Parallel()
		seen := observed{job: testJob(), now: testNow}
		assert.Empty(t, told(decide(seen, count(seen))), "what is to be done: nothing runs, and pods that were created are not in the cache yet")
	})
}

func TestPodsOfAnIndexKnowIt(t *testing.T) {
	t.Parallel()
	job := testJob(indexed, perIndex(3), func(job *batchv1.Job) {
		job.Name = strings.Repeat("long", 15)
		job.Spec.Template.Spec.Containers = append(job.Spec.Template.Spec.Containers,
			corev1.Container{Name: "own", Env: []corev1.EnvVar{{Name: "JOB_COMPLETION_INDEX", Value: "mine"}}})
	})
	replaced := podOf(job, "f1", exit(1), at(2))
	replaced.Annotations[batchv1.JobIndexFailureCountAnnotation] = "1"
	pod := newIndexedPod(job, 2, replaced)
	assert.Equal(t, "2", pod.Labels[batchv1.JobCompletionIndexAnnotation], "label")
	assert.Equal(t, "2", pod.Annotations[batchv1.JobCompletionIndexAnnotation], "annotation")
	assert.Equal(t, "2", pod.Annotations[batchv1.JobIndexFailureCountAnnotation], "failures before it: one before the pod that it replaces, and that pod")
	assert.Equal(t, job.Name+"-2", pod.Spec.Hostname, "hostname")
	assert.Equal(t, job.Name[:55]+"-2-", pod.GenerateName, "beginning of its name, which is cut so that the index stays")
	assert.Equal(t, "metadata.labels['batch.kubernetes.io/job-completion-index']", pod.Spec.Containers[0].Env[0].ValueFrom.FieldRef.FieldPath, "variable")
	assert.Equal(t, "mine", pod.Spec.Containers[1].Env[0].Value, "variable of a container that has its own")
	assert.True(t, hasFinalizer(pod), "finalizer")
	assert.Empty(t, job.Spec.Template.Spec.Containers[0].Env, "the template, which is the cache's")
}
