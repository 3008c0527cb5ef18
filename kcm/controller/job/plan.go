package job

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// Burst is how many pods one sync creates, deletes or counts at most.
const Burst = 500

// plan is what one sync does about pods, and what it comes to. At most one of
// create and delete has something in it.
type plan struct {
	// verdict, if not nil, holds if all that is to be deleted could be.
	verdict *verdict
	create  []*corev1.Pod
	delete  []*corev1.Pod
	// uncounted deletions are of pods that nobody has to count: their finalizers
	// go first.
	uncounted bool
	// wait is how long it is until there is something to do that nothing will be
	// notified of. Zero if there is no such thing.
	wait time.Duration
}

// decide says what to do about a Job's pods. Without a verdict it creates and
// deletes only what it may be sure of, and for a Job that is being deleted does
// neither.
func decide(seen observed, t tally) plan {
	if v := judgeJob(seen, t); v != nil {
		return plan{verdict: v, delete: t.active}
	}
	p := plan{uncounted: true}
	switch {
	case !seen.mayAct:
	case seen.job.DeletionTimestamp != nil:
		p.verdict = ifEnough(seen.job, t, p)
	case isSuspended(seen.job):
		p.delete = t.active
		p.verdict = ifEnough(seen.job, t, p)
	default:
		p.delete = tooMany(seen.job, t)
		if p.verdict = ifEnough(seen.job, t, p); len(p.delete) == 0 {
			p.create, p.wait = tooFew(seen, t)
		}
	}
	if left, limited := timeLeft(seen); limited && (p.wait == 0 || left < p.wait) {
		p.wait = left
	}
	return p
}

// ifEnough returns the verdict that the Job is done once the plan is carried out,
// or nil. A Job without completions is done when one pod has succeeded and the
// others have ended.
func ifEnough(job *batchv1.Job, t tally, p plan) *verdict {
	if len(t.active) > len(p.delete) || t.succeeded < int(*cmp.Or(job.Spec.Completions, new(int32(1)))) {
		return nil
	}
	return enough
}

// wanted returns how many pods are to be active: no more than there are
// completions left. Where no number of completions is given, no pod is created
// any more once one has succeeded, because that one knew that all is done.
func wanted(job *batchv1.Job, t tally) int {
	parallelism := int(*job.Spec.Parallelism)
	switch {
	case job.Spec.Completions != nil:
		return max(min(int(*job.Spec.Completions)-t.succeeded, parallelism), 0)
	case t.succeeded > 0:
		return len(t.active)
	default:
		return parallelism
	}
}

// tooMany returns the pods that are to be deleted: those that run for an index
// for which another one runs, or for none at all, and as many more as there are
// too many, beginning with those that have least to lose.
func tooMany(job *batchv1.Job, t tally) []*corev1.Pod {
	active := slices.SortedFunc(slices.Values(t.active), byProgress)
	var surplus, left []*corev1.Pod
	taken := map[int]bool{}
	for _, pod := range slices.Backward(active) {
		index, ok := indexOf(job, pod)
		if isIndexed(job) && (!ok || taken[index]) {
			surplus = append(surplus, pod)
			continue
		}
		taken[index] = true
		left = append(left, pod)
	}
	if more := len(active) - wanted(job, t) - len(surplus); more > 0 {
		surplus = append(surplus, left[len(left)-more:]...)
	}
	return surplus[:min(len(surplus), Burst)]
}

// byProgress orders pods by what is lost with them, least first.
func byProgress(a, b *corev1.Pod) int {
	step := func(pod *corev1.Pod) int {
		switch {
		case controller.IsPodReady(pod):
			return 3
		case pod.Status.Phase == corev1.PodRunning:
			return 2
		case pod.Spec.NodeName != "":
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(step(a), step(b)),
		b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
		cmp.Compare(a.UID, b.UID),
	)
}

// tooFew returns the pods that are to be created, and how long it is until more
// may be that have to wait for the end of a pause.
func tooFew(seen observed, t tally) ([]*corev1.Pod, time.Duration) {
	job := seen.job
	n := wanted(job, t) - len(t.active)
	if waitsForPhase(job) {
		n -= len(t.terminating)
	}
	if n = min(n, Burst); n <= 0 {
		return nil, 0
	}
	if !countsPerIndex(job) {
		if wait := seen.failures.wait(seen.now); wait > 0 {
			return nil, wait
		}
	}
	if !isIndexed(job) {
		var pods []*corev1.Pod
		for range n {
			pods = append(pods, newPod(job))
		}
		return pods, 0
	}
	// As many more are looked at as may have to wait: they hold no place meanwhile.
	list, wait := waits(open(job, t, n+len(t.replaced)), t.replaced, seen.now)
	var pods []*corev1.Pod
	for _, index := range list[:min(n, len(list))] {
		pods = append(pods, newIndexedPod(job, index, t.replaced[index]))
	}
	return pods, wait
}

// open returns the first n indexes for which nothing runs and that are not
// settled.
func open(job *batchv1.Job, t tally, n int) []int {
	taken := t.completed.union(t.failedIndexes, indexesOf(indexesOfPods(job, t.active)...))
	if waitsForPhase(job) {
		taken = taken.union(indexesOf(indexesOfPods(job, t.terminating)...))
	}
	return taken.missing(n, int(*job.Spec.Completions))
}

// newPod returns a pod for the Job. It has the finalizer from the start: there is
// no moment at which it could end and go uncounted.
func newPod(job *batchv1.Job) *corev1.Pod {
	pod := controller.PodFromTemplate(&job.Spec.Template, job, kind)
	if !hasFinalizer(pod) {
		pod.Finalizers = append(pod.Finalizers, batchv1.JobTrackingFinalizer)
	}
	return pod
}

// newIndexedPod returns a pod for an index, which it learns from a label, an
// annotation, its hostname and a variable of its environment.
func newIndexedPod(job *batchv1.Job, index int, replaced *corev1.Pod) *corev1.Pod {
	pod, number := newPod(job), strconv.Itoa(index)
	end := "-" + number + "-"
	pod.GenerateName = job.Name[:min(len(job.Name), names.MaxGeneratedNameLength-len(end))] + end
	pod.Labels = controller.With(pod.Labels, batchv1.JobCompletionIndexAnnotation, number)
	pod.Annotations = controller.With(pod.Annotations, batchv1.JobCompletionIndexAnnotation, number)
	pod.Spec.Hostname = fmt.Sprintf("%s-%d", job.Name, index)
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			tellIndex(&containers[i])
		}
	}
	if countsPerIndex(job) {
		countTries(job, pod, replaced)
	}
	return pod
}

// indexVariable is where a container reads its index.
const indexVariable = "JOB_COMPLETION_INDEX"

// tellIndex gives a container the variable, unless the template has one of that
// name.
func tellIndex(container *corev1.Container) {
	if slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == indexVariable }) {
		return
	}
	container.Env = append(container.Env, corev1.EnvVar{Name: indexVariable, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']"},
	}})
}
