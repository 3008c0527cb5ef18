package job

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func schemaOf(*corev1.Pod) schema.GroupKind { return schema.GroupKind{Kind: "Pod"} }

// testJob is one that wants three completions, two at a time.
func testJob(edits ...func(*batchv1.Job)) *batchv1.Job {
	labels := map[string]string{"batch.kubernetes.io/controller-uid": "uid-report"}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid-report"},
		Spec: batchv1.JobSpec{
			Parallelism:  new(int32(2)),
			Completions:  new(int32(3)),
			BackoffLimit: new(int32(6)),
			Selector:     &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main"}}},
			},
		},
		Status: batchv1.JobStatus{UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{}},
	}
	for _, edit := range edits {
		edit(job)
	}
	return job
}

func indexed(job *batchv1.Job) { job.Spec.CompletionMode = new(batchv1.IndexedCompletion) }

func suspended(job *batchv1.Job) { job.Spec.Suspend = new(true) }

func onlyFailed(job *batchv1.Job) { job.Spec.PodReplacementPolicy = new(batchv1.Failed) }

func perIndex(limit int32) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Spec.BackoffLimitPerIndex = &limit }
}

func completions(n int32) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Spec.Completions = &n }
}

func withoutCompletions(job *batchv1.Job) { job.Spec.Completions = nil }

func parallelism(n int32) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Spec.Parallelism = &n }
}

func backoffLimit(n int32) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Spec.BackoffLimit = &n }
}

// podOf is an active pod of the Job, with its finalizer.
func podOf(job *batchv1.Job, uid types.UID, edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-" + string(uid), UID: uid,
			Labels:          job.Spec.Template.Labels,
			Finalizers:      []string{batchv1.JobTrackingFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, kind)},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}
