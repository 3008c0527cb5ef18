package cronjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// act deletes what is too much, makes room, and creates a Job. What it has done it
// writes into the plan's status.
func (c *Controller) act(ctx context.Context, cj *batchv1.CronJob, p *plan) error {
	var errs []error
	for _, job := range p.delete {
		errs = append(errs, c.deleteJob(ctx, cj, p, job.Name, job.UID))
	}
	for _, ref := range p.replace {
		if err := c.deleteJob(ctx, cj, p, ref.Name, ref.UID); err != nil {
			return errors.Join(append(errs, err)...) // no room
		}
	}
	if !p.start.IsZero() {
		errs = append(errs, c.start(ctx, cj, p, p.start))
	}
	return errors.Join(errs...)
}

// deleteJob deletes a Job and takes it out of the active ones. Its pods follow.
func (c *Controller) deleteJob(ctx context.Context, cj *batchv1.CronJob, p *plan, name string, uid types.UID) error {
	err := c.client.BatchV1().Jobs(cj.Namespace).Delete(ctx, name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	switch {
	case controller.IsGone(err):
	case err != nil:
		c.events.Eventf(cj, corev1.EventTypeWarning, "FailedDelete", "Deleted job: %v", err)
		return fmt.Errorf("delete job %s/%s: %w", cj.Namespace, name, err)
	default:
		c.events.Eventf(cj, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted job %v", name)
	}
	p.remove(uid)
	return nil
}

// start creates the Job for a moment and enters it in the status. If there is one
// of that name, it was created by a process that ended before it could write the
// status. One that is not the CronJob's is somebody else's, and is left alone.
func (c *Controller) start(ctx context.Context, cj *batchv1.CronJob, p *plan, at time.Time) error {
	job, err := newJob(cj, at)
	if err != nil {
		return err
	}
	jobs := c.client.BatchV1().Jobs(cj.Namespace)
	created, err := jobs.Create(ctx, job, metav1.CreateOptions{})
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // the CronJob goes, too
	case apierrors.IsAlreadyExists(err):
		if created, err = jobs.Get(ctx, job.Name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("read job %s/%s: %w", cj.Namespace, job.Name, err)
		}
		if !metav1.IsControlledBy(created, cj) {
			return nil
		}
	case err != nil:
		c.events.Eventf(cj, corev1.EventTypeWarning, "FailedCreate", "Error creating job: %v", err)
		return fmt.Errorf("create job %s/%s: %w", cj.Namespace, job.Name, err)
	default:
		c.jobWrites.Wrote(cache.MetaObjectToName(cj), created.ResourceVersion)
		creationSkew.Observe(created.CreationTimestamp.Sub(at).Seconds())
		c.events.Eventf(cj, corev1.EventTypeNormal, "SuccessfulCreate", "Created job %v", created.Name)
	}
	if end(created) == "" {
		p.status.Active = append(p.status.Active, corev1.ObjectReference{
			APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Namespace: created.Namespace, Name: created.Name,
			UID: created.UID, ResourceVersion: created.ResourceVersion,
		})
	}
	p.status.LastScheduleTime = &metav1.Time{Time: at}
	return nil
}
