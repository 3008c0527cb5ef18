package job

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"
)

// text is what somebody may have written where a number or a list of indexes is
// expected.
var text = rapid.OneOf(
	rapid.SampledFrom([]string{"", "0", "1", "2", "-1", "+1", "0-2", "1,3-5", "5-3", "0-2147483647", "2147483648", "99999999999999999999", "1,,2", "a", " 1"}),
	rapid.String(),
)

// anyJob is one that the API server lets in, but for what the loop itself writes:
// that may be anything.
func anyJob(t *rapid.T) *batchv1.Job {
	count := rapid.Int32Range(0, 5)
	job := testJob(completions(count.Draw(t, "completions")), parallelism(count.Draw(t, "parallelism")), backoffLimit(count.Draw(t, "backoffLimit")))
	action := rapid.SampledFrom([]batchv1.PodFailurePolicyAction{"FailJob", "Ignore", "Count", "FailIndex", "", "Other"})
	rule := rapid.Custom(func(t *rapid.T) batchv1.PodFailurePolicyRule {
		rule := batchv1.PodFailurePolicyRule{Action: action.Draw(t, "action")}
		if rapid.Bool().Draw(t, "by exit code") {
			rule.OnExitCodes = &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: rapid.Ptr(rapid.SampledFrom([]string{"main", "other"}), true).Draw(t, "container"),
				Operator:      rapid.SampledFrom([]batchv1.PodFailurePolicyOnExitCodesOperator{"In", "NotIn", ""}).Draw(t, "operator"),
				Values:        rapid.SliceOfN(rapid.Int32Range(-1, 3), 0, 3).Draw(t, "codes"),
			}
		} else {
			rule.OnPodConditions = []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
		}
		return rule
	})
	if rapid.Bool().Draw(t, "has a failure policy") {
		job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rapid.SliceOfN(rule, 0, 3).Draw(t, "rules")}
	}
	if rapid.Bool().Draw(t, "is Indexed") {
		indexed(job)
		job.Spec.BackoffLimitPerIndex = rapid.Ptr(count, true).Draw(t, "backoffLimitPerIndex")
		if countsPerIndex(job) {
			job.Spec.MaxFailedIndexes = rapid.Ptr(count, true).Draw(t, "maxFailedIndexes")
			job.Status.FailedIndexes = rapid.Ptr(text, true).Draw(t, "failedIndexes")
		}
		job.Status.CompletedIndexes = text.Draw(t, "completedIndexes")
		if rapid.Bool().Draw(t, "has a success policy") {
			job.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{
				SucceededIndexes: rapid.Ptr(text, true).Draw(t, "succeededIndexes"), SucceededCount: rapid.Ptr(count, true).Draw(t, "succeededCount"),
			}}}
		}
	}
	if rapid.Bool().Draw(t, "replaces what has failed alone") {
		onlyFailed(job)
	}
	uids := rapid.SliceOfN(rapid.SampledFrom([]types.UID{"0", "1", "2", "gone"}), 0, 3)
	job.Status.Succeeded, job.Status.Failed = count.Draw(t, "succeeded"), count.Draw(t, "failed")
	job.Status.UncountedTerminatedPods = rapid.SampledFrom([]*batchv1.UncountedTerminatedPods{nil, {}}).Draw(t, "uncounted")
	if uncounted := job.Status.UncountedTerminatedPods; uncounted != nil {
		job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: uids.Draw(t, "uncounted succeeded"), Failed: uids.Draw(t, "uncounted failed")}
	}
	return job
}

func anyPod(t *rapid.T, job *batchv1.Job, number int) *corev1.Pod {
	pod := podOf(job, types.UID(fmt.Sprint(number)))
	pod.Annotations = rapid.MapOfN(rapid.SampledFrom([]string{
		batchv1.JobCompletionIndexAnnotation, batchv1.JobIndexFailureCountAnnotation, batchv1.JobIndexIgnoredFailureCountAnnotation,
	}), text, 0, 3).Draw(t, "annotations")
	pod.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, "Other"}).Draw(t, "phase")
	if rapid.Bool().Draw(t, "has no finalizer") {
		pod.Finalizers = nil
	}
	if rapid.Bool().Draw(t, "is being deleted") {
		pod.DeletionTimestamp = &metav1.Time{Time: testNow}
		pod.DeletionGracePeriodSeconds = rapid.Ptr(rapid.Int64(), true).Draw(t, "grace")
	}
	if rapid.Bool().Draw(t, "has a container") {
		status := corev1.ContainerStatus{Name: "main", RestartCount: rapid.Int32().Draw(t, "restarts")}
		if rapid.Bool().Draw(t, "has ended") {
			status.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: rapid.Int32Range(-1, 3).Draw(t, "code")}
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	}
	return pod
}

// survives wants a plan and a status, whatever a Job's status and its pods say.
func survives(t *rapid.T) {
	job := anyJob(t)
	seen := observed{job: job, mayAct: rapid.Bool().Draw(t, "may act"), now: testNow.Add(time.Hour)}
	for i := range rapid.IntRange(0, 5).Draw(t, "pods") {
		seen.pods = append(seen.pods, anyPod(t, job, i))
	}
	seen.failures = failures{}.note(job, seen.pods)
	tally := count(seen)
	p := decide(seen, tally)
	require.False(t, len(p.create) > 0 && len(p.delete) > 0, "it creates or deletes")
	require.LessOrEqual(t, len(p.create)+len(tally.active), max(int(*job.Spec.Parallelism), len(tally.active)), "pods that run at a time")
	taken := indexesOf(indexesOfPods(job, tally.active)...).union(tally.completed, tally.failedIndexes)
	for _, pod := range p.create {
		index, ok := indexOf(job, pod)
		require.True(t, ok, "index %q of a new pod", pod.Annotations[batchv1.JobCompletionIndexAnnotation])
		require.False(t, isIndexed(job) && taken.has(index), "a new pod for index %d, of which there was no need", index)
		taken = taken.union(indexesOf(index))
	}
	status := decideStatus(seen, tally, p, done{created: len(p.create), deleted: len(p.delete)})
	release := account(seen, tally, p.verdict, &status)
	finish(&status, p.verdict, len(release), seen.now)
	for _, pod := range release {
		require.True(t, hasFinalizer(pod), "what is let go of was held")
	}
	require.GreaterOrEqual(t, status.Failed, job.Status.Failed, "failed pods stay counted")
	before := sets.New[types.UID]()
	if job.Status.UncountedTerminatedPods != nil {
		before.Insert(job.Status.UncountedTerminatedPods.Failed...)
	}
	for _, uid := range status.UncountedTerminatedPods.Failed {
		require.True(t, before.Has(uid) || tracked(seen.pods).Has(uid), "%s comes into the list, and is no pod that waits", uid)
	}
}

func TestWhateverAJobsStatusAndPodsSayAPlanComesOfIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, survives)
}

func FuzzWhateverAJobsStatusAndPodsSayAPlanComesOfIt(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(survives))
}

func FuzzWhateverIsWrittenAsIndexesASetComesOfIt(f *testing.F) {
	for _, text := range []string{"", "1,3-5", "5-3,7", "1,x,-2", "0-99999999999999999999", "4,,4", "2-1,1-2"} {
		f.Add(text, int32(10))
	}
	f.Fuzz(func(t *testing.T, text string, completions int32) {
		x := parseIndexes(text, int(completions))
		for i, interval := range x {
			require.LessOrEqual(t, interval.first, interval.last)
			require.True(t, 0 <= interval.first && interval.last < int(completions), "%v of a Job with %d completions", interval, completions)
			require.True(t, i == 0 || x[i-1].last+1 < interval.first, "%v are in order, with room between them", x)
		}
		require.Equal(t, x, parseIndexes(x.String(), int(completions)), "%q, written and read again", x)
		for _, index := range x.missing(3, int(completions)) {
			require.False(t, x.has(index), "%d is missing in %v", index, x)
		}
	})
}
