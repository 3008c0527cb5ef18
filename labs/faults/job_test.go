package faults

import (
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// report adds a Job that may run one pod at a time.
func (p *past) report() *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "report", UID: "report"},
		Spec: batchv1.JobSpec{Parallelism: new(int32(1)), Completions: new(int32(2))}}
	p.change(watch.Added, "jobs", job)
	return job
}

func (p *past) jobPod(job *batchv1.Job, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Finalizers: []string{batchv1.JobTrackingFinalizer},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
	}}
	p.change(watch.Added, "pods", pod)
	return pod
}

func (p *past) succeed(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodSucceeded
	p.change(watch.Modified, "pods", pod)
}

func (p *past) counts(job *batchv1.Job, succeeded int32, listed ...types.UID) {
	job.Status.Succeeded = succeeded
	job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: listed}
	p.change(watch.Modified, "jobs", job)
}

func (p *past) letGo(pod *corev1.Pod) {
	pod.Finalizers = nil
	p.change(watch.Modified, "pods", pod)
}

func TestAPodIsWrittenDownLetGoAndCounted(t *testing.T) {
	t.Parallel()
	p := &past{t: t}
	job := p.report()
	pod := p.jobPod(job, "one")
	p.succeed(pod)
	p.counts(job, 0, "one")
	p.letGo(pod)
	p.counts(job, 1)
	p.jobPod(job, "two")
	violations, err := NewJudge().Look(p.changes...)
	require.NoError(t, err)
	require.Empty(t, violations)
}
