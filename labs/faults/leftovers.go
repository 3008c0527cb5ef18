package faults

//lint:file-ignore SA1019 Endpoints are deprecated, and a workload is about them.

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// These workloads are about what loops take away, let go of and take on, and ask for
// little else.

// inherit gives a Deployment two old ReplicaSets, of which it keeps the later one
// until that loses its label.
func inherit(ctx context.Context, s *stage) error {
	s.did("create replicasets old-1 and old-2 of 0")
	for i, name := range []string{"old-1", "old-2"} {
		_, err := s.client.AppsV1().ReplicaSets(s.namespace).Create(ctx, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{"app": app}, Annotations: map[string]string{"deployment.kubernetes.io/revision": strconv.Itoa(i + 1)},
			},
			Spec: appsv1.ReplicaSetSpec{Replicas: new(int32), Selector: metav1.SetAsLabelSelector(map[string]string{"app": app}), Template: podTemplate(name, true)},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	s.did("create deployment " + app + " of 1 that keeps one old version")
	d := deployment(1, "")
	d.Spec.RevisionHistoryLimit = new(int32(1))
	if _, err := s.client.AppsV1().Deployments(s.namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return err
	}
	err := s.await(ctx, "the Deployment has two ReplicaSets, and there are no others", func(w *World) bool {
		d := w.deployment(app)
		return d != nil && d.Status.AvailableReplicas == 1 && len(w.setsOf(d)) == 2 && len(w.ReplicaSets) == 2
	})
	if err != nil {
		return err
	}
	s.did("label replicaset old-2 app=other")
	label := []byte(`{"metadata":{"labels":{"app":"other"}}}`)
	if _, err := s.client.AppsV1().ReplicaSets(s.namespace).Patch(ctx, "old-2", types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		return err
	}
	return s.await(ctx, "the Deployment has let it go", func(w *World) bool {
		return w.set("old-2") != nil && metav1.GetControllerOf(w.set("old-2")) == nil
	})
}

// follow deletes a Job, whose pods follow once nothing holds them.
func follow(ctx context.Context, s *stage) error {
	if err := s.createJob(ctx, 2, 2, "1h"); err != nil {
		return err
	}
	if err := s.await(ctx, "the Job runs", func(w *World) bool { return w.job(app) != nil && w.job(app).Status.Active == 2 }); err != nil {
		return err
	}
	s.did("delete job " + app)
	background := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if err := s.client.BatchV1().Jobs(s.namespace).Delete(ctx, app, background); err != nil {
		return err
	}
	return s.await(ctx, "its pods are gone", func(w *World) bool { return len(w.Jobs)+len(w.Pods) == 0 })
}

// finish has Jobs that are over: one whose time is over, too, and one of a CronJob
// that keeps none.
func finish(ctx context.Context, s *stage) error {
	if err := s.finished(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "timed"}, Spec: batchv1.JobSpec{TTLSecondsAfterFinished: new(int32)}}); err != nil {
		return err
	}
	s.did("create cronjob " + app)
	cronJob, err := s.client.BatchV1().CronJobs(s.namespace).Create(ctx, &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: batchv1.CronJobSpec{
			Schedule: "0 0 * * *", Suspend: new(true), FailedJobsHistoryLimit: new(int32),
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: jobTemplate("1h")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	owner := metav1.NewControllerRef(cronJob, batchv1.SchemeGroupVersion.WithKind("CronJob"))
	if err := s.finished(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "nightly", OwnerReferences: []metav1.OwnerReference{*owner}}}); err != nil {
		return err
	}
	return s.await(ctx, "both Jobs are gone", func(w *World) bool { return len(w.Jobs) == 0 })
}

// finished creates a Job and says that it has failed. Nobody runs it.
func (s *stage) finished(ctx context.Context, job *batchv1.Job) error {
	s.did("create job " + job.Name + ", and say that it has failed")
	job.Spec.Template = jobTemplate("1h")
	job, err := s.client.BatchV1().Jobs(s.namespace).Create(ctx, job, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	now := metav1.Now()
	job.Status = batchv1.JobStatus{StartTime: &now, Failed: 1, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{}}
	for _, kind := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	_, err = s.client.BatchV1().Jobs(s.namespace).UpdateStatus(ctx, job, metav1.UpdateOptions{})
	return err
}

// giveUp has slices that are not wanted any more: those of an address family, and
// the mirror of Endpoints.
func giveUp(ctx context.Context, s *stage) error {
	s.did("create service " + app + " of two families, service written without a selector, and its endpoints")
	port := []corev1.ServicePort{{Name: "http", Port: 80}}
	for _, service := range []*corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app}, Ports: port, IPFamilyPolicy: new(corev1.IPFamilyPolicyRequireDualStack),
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "written"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: port}},
	} {
		if _, err := s.client.CoreV1().Services(s.namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	address := corev1.EndpointAddress{IP: "192.0.2.1", TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: s.namespace, Name: "far", UID: "far"}}
	endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "written"}, Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{address}}}}
	if _, err := s.client.CoreV1().Endpoints(s.namespace).Create(ctx, endpoints, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := s.await(ctx, "there are three slices", func(w *World) bool { return len(w.Slices) == 3 }); err != nil {
		return err
	}
	s.did("service " + app + " is of one family, and the endpoints are deleted")
	single := []byte(`{"spec":{"ipFamilyPolicy":"SingleStack"}}`)
	if _, err := s.client.CoreV1().Services(s.namespace).Patch(ctx, app, types.MergePatchType, single, metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := s.client.CoreV1().Endpoints(s.namespace).Delete(ctx, "written", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return s.await(ctx, "there is one slice", func(w *World) bool { return len(w.Slices) == 1 })
}

// tokens has a token Secret filled, and taken away with its account.
func tokens(ctx context.Context, s *stage) error {
	s.did("create serviceaccount bot and secret lasting")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bot"}}
	if _, err := s.client.CoreV1().ServiceAccounts(s.namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return err
	}
	secret := &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{
		Name: "lasting", Annotations: map[string]string{corev1.ServiceAccountNameKey: account.Name},
	}}
	if _, err := s.client.CoreV1().Secrets(s.namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return err
	}
	err := s.await(ctx, "the Secret has a token", func(*World) bool {
		filled, err := s.client.CoreV1().Secrets(s.namespace).Get(ctx, secret.Name, metav1.GetOptions{})
		return err == nil && len(filled.Data[corev1.ServiceAccountTokenKey]) > 0
	})
	if err != nil {
		return err
	}
	s.did("delete serviceaccount bot")
	if err := s.client.CoreV1().ServiceAccounts(s.namespace).Delete(ctx, account.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return s.await(ctx, "the Secret is gone", func(w *World) bool { return !w.Others["secrets"][secret.Name] })
}
