package deployment

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// note writes down what the step of this round rests on: that a rollout is
// paused or goes on, which revision it is. It returns what was seen with the
// API server's answers in it. An admission webhook may undo what is written:
// then nothing changes and nothing is notified, so the round goes on with the
// answer, whatever it says. Only where the ReplicaSet has other minReadySeconds
// now it begins again: the pods in its status are available by the old ones.
func (c *Controller) note(ctx context.Context, seen observed) (observed, error) {
	if selectsEverything(seen.deployment) {
		return seen, nil
	}
	var err error
	if d := notePause(seen); d != nil {
		if seen.deployment, err = c.writeStatus(ctx, d); err != nil {
			return observed{}, err
		}
	}
	if rs := updateNew(seen); rs != nil {
		if seen.newRS, err = c.updateReplicaSet(ctx, seen.deployment, rs); err != nil {
			return observed{}, err
		}
		if seen.newRS.Generation != rs.Generation {
			return observed{}, fmt.Errorf("%w: ReplicaSet %s has other minReadySeconds now", controller.ErrStaleCache, klog.KObj(rs))
		}
	}
	if d := noteRevision(seen); d != nil {
		seen.deployment, err = c.writeStatus(ctx, d)
	}
	return seen, err
}

// act carries out a plan. The status tells what was seen, so it is written
// also when a step before it fails, unless a conflict has shown that things are
// not as they were seen.
func (c *Controller) act(ctx context.Context, seen observed, p plan) error {
	d := seen.deployment
	if p.create != nil {
		return c.create(ctx, seen, p.create)
	}
	if p.recheckAfter > 0 {
		c.loop.AddAfter(cache.MetaObjectToName(d), p.recheckAfter)
	}
	err := c.changeReplicaSets(ctx, d, p.change)
	if err == nil {
		err = c.removeReplicaSets(ctx, p.remove)
	}
	if err == nil {
		err = c.updateSpec(ctx, p.spec)
	}
	if apierrors.IsConflict(err) {
		return err
	}
	err = errors.Join(err, c.updateStatus(ctx, p.status))
	if err == nil && p.event != nil {
		c.events.Event(d, p.event.kind, p.event.reason, p.event.message)
	}
	return err
}

// create creates the new ReplicaSet and writes into the status how it went.
func (c *Controller) create(ctx context.Context, seen observed, rs *appsv1.ReplicaSet) error {
	d := seen.deployment
	err := c.createUnchanged(ctx, d, rs)
	switch {
	case apierrors.IsAlreadyExists(err):
		return c.settleCollision(ctx, d, rs.Name)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || (err != nil && ctx.Err() != nil):
		return fmt.Errorf("create new ReplicaSet for %s: %w", klog.KObj(d), err)
	case err != nil:
		reason := reasonCreateFailed
		if errors.Is(err, errTemplateChanged) {
			reason = reasonTemplateChanged
		}
		message := fmt.Sprintf("Failed to create new replica set %q: %v", rs.Name, err)
		c.events.Event(d, corev1.EventTypeWarning, reason, message)
		return errors.Join(
			fmt.Errorf("create new ReplicaSet for %s: %w", klog.KObj(d), err),
			c.updateStatus(ctx, afterFailure(d, reason, message, seen.now)),
		)
	}
	if size(rs) > 0 {
		c.recordScaling(d, rs.Name, 0, size(rs))
	}
	return c.updateStatus(ctx, afterCreation(d, rs, seen.now))
}

// errTemplateChanged says that the API server would keep a ReplicaSet with
// another template than it was sent.
var errTemplateChanged = errors.New("it is stored with another template; " +
	"an admission webhook or policy that changes ReplicaSets has to change Deployments in the same way, or pods instead")

// createUnchanged creates the ReplicaSet with the template that it has, or not
// at all. With another one the next round would not take it for the new
// ReplicaSet and create one more, and so on for ever
// (https://github.com/kubernetes/kubernetes/issues/57167; the original does).
// So it is deleted again, and from then on the API server is asked first what
// would come of a creation.
func (c *Controller) createUnchanged(ctx context.Context, d *appsv1.Deployment, rs *appsv1.ReplicaSet) error {
	replicaSets := c.client.AppsV1().ReplicaSets(rs.Namespace)
	if p := findCondition(d.Status, appsv1.DeploymentProgressing); p != nil && p.Reason == reasonTemplateChanged {
		tried, err := replicaSets.Create(ctx, rs, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if !sameTemplate(d.Spec.Template, tried.Spec.Template) {
			return errTemplateChanged
		}
	}
	created, err := replicaSets.Create(ctx, rs, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	c.replicaSetWrites.Wrote(cache.MetaObjectToName(d), created.ResourceVersion)
	if sameTemplate(d.Spec.Template, created.Spec.Template) {
		return nil
	}
	err = replicaSets.Delete(ctx, created.Name, *metav1.NewPreconditionDeleteOptions(string(created.UID)))
	return errors.Join(errTemplateChanged, err)
}

// afterCreation returns the deployment with the revision of its new ReplicaSet
// and the time from which the progress of the rollout is measured, or nil if
// there is nothing to write.
func afterCreation(d *appsv1.Deployment, rs *appsv1.ReplicaSet, now time.Time) *appsv1.Deployment {
	status := *d.Status.DeepCopy()
	if hasProgressDeadline(d) {
		// Replaced even if it says the same: this is another creation.
		condition := newCondition(now, appsv1.DeploymentProgressing, corev1.ConditionTrue,
			reasonNewReplicaSet, fmt.Sprintf("Created new replica set %q", rs.Name))
		if before := findCondition(status, condition.Type); before != nil && before.Status == condition.Status {
			condition.LastTransitionTime = before.LastTransitionTime
		}
		replaceCondition(&status, condition)
	}
	return rewritten(d, status, rs.Annotations[revisionAnnotation])
}

// afterFailure returns the deployment with a condition that says why its new
// ReplicaSet could not be created, or nil if there is nothing to write. That
// its template is changed is told without a deadline, too: the next round goes
// by it.
func afterFailure(d *appsv1.Deployment, reason, message string, now time.Time) *appsv1.Deployment {
	status := *d.Status.DeepCopy()
	if hasProgressDeadline(d) || reason == reasonTemplateChanged {
		setCondition(&status, newCondition(now, appsv1.DeploymentProgressing, corev1.ConditionFalse, reason, message))
	}
	return rewritten(d, status, d.Annotations[revisionAnnotation])
}

// settleCollision finds out what has the name of the new ReplicaSet. If it is
// that ReplicaSet, the deployment's or about to be adopted, nothing is to be
// done: the cache will show it. Otherwise a collision is counted in the status,
// and the next try has another name.
func (c *Controller) settleCollision(ctx context.Context, d *appsv1.Deployment, name string) error {
	// An older cache shows an owner that has let go of it since.
	rs, err := c.client.AppsV1().ReplicaSets(d.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read ReplicaSet %s, which %s finds to exist: %w", name, klog.KObj(d), err)
	}
	if isOrBecomesOurs(d, rs) && sameTemplate(d.Spec.Template, rs.Spec.Template) {
		return nil
	}
	klog.FromContext(ctx).V(2).Info("Template hash collides", "deployment", klog.KObj(d), "replicaSet", klog.KObj(rs))
	return c.updateStatus(ctx, afterCollision(d))
}

// isOrBecomesOurs tells whether the deployment controls the ReplicaSet, or
// would adopt it.
func isOrBecomesOurs(d *appsv1.Deployment, rs *appsv1.ReplicaSet) bool {
	if metav1.GetControllerOfNoCopy(rs) != nil {
		return metav1.IsControlledBy(rs, d)
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(rs.Labels)) && rs.DeletionTimestamp == nil
}

// afterCollision returns the deployment with one more collision counted.
func afterCollision(d *appsv1.Deployment) *appsv1.Deployment {
	d = d.DeepCopy()
	if d.Status.CollisionCount == nil {
		d.Status.CollisionCount = new(int32)
	}
	*d.Status.CollisionCount++
	return d
}

func (c *Controller) updateReplicaSet(
	ctx context.Context,
	d *appsv1.Deployment,
	rs *appsv1.ReplicaSet,
) (*appsv1.ReplicaSet, error) {
	updated, err := c.client.AppsV1().ReplicaSets(rs.Namespace).Update(ctx, rs, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("update ReplicaSet %s: %w", klog.KObj(rs), err)
	}
	c.replicaSetWrites.Wrote(cache.MetaObjectToName(d), updated.ResourceVersion)
	return updated, nil
}

func (c *Controller) changeReplicaSets(ctx context.Context, d *appsv1.Deployment, changes []change) error {
	for _, change := range changes {
		to := change.to
		if _, err := c.updateReplicaSet(ctx, d, to); err != nil {
			return err
		}
		if size(to) != size(change.from) {
			c.recordScaling(d, to.Name, size(change.from), size(to))
		}
	}
	return nil
}

func (c *Controller) recordScaling(d *appsv1.Deployment, replicaSet string, from, to int32) {
	direction := "up"
	if to < from {
		direction = "down"
	}
	c.events.Eventf(d, corev1.EventTypeNormal, "ScalingReplicaSet",
		"Scaled %s replica set %s from %d to %d", direction, replicaSet, from, to)
}

// removeReplicaSets deletes ReplicaSets as they were seen. One that has changed
// since then, because somebody has scaled it up for example, is left alone.
func (c *Controller) removeReplicaSets(ctx context.Context, replicaSets []*appsv1.ReplicaSet) error {
	for _, rs := range replicaSets {
		asSeen := metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &rs.UID, ResourceVersion: &rs.ResourceVersion},
		}
		err := c.client.AppsV1().ReplicaSets(rs.Namespace).Delete(ctx, rs.Name, asSeen)
		if err != nil && !controller.IsGone(err) {
			return fmt.Errorf("delete ReplicaSet %s: %w", klog.KObj(rs), err)
		}
	}
	return nil
}

func (c *Controller) updateSpec(ctx context.Context, d *appsv1.Deployment) error {
	if d == nil {
		return nil
	}
	updated, err := c.client.AppsV1().Deployments(d.Namespace).Update(ctx, d, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("roll back deployment %s: %w", klog.KObj(d), err)
	}
	c.deploymentWrites.Wrote(cache.MetaObjectToName(d), updated.ResourceVersion)
	return nil
}

func (c *Controller) updateStatus(ctx context.Context, d *appsv1.Deployment) error {
	if d == nil {
		return nil
	}
	_, err := c.writeStatus(ctx, d)
	return err
}

// writeStatus writes the status, and with it the annotations: the subresource
// takes both.
func (c *Controller) writeStatus(ctx context.Context, d *appsv1.Deployment) (*appsv1.Deployment, error) {
	updated, err := c.client.AppsV1().Deployments(d.Namespace).UpdateStatus(ctx, d, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("update status of deployment %s: %w", klog.KObj(d), err)
	}
	c.deploymentWrites.Wrote(cache.MetaObjectToName(d), updated.ResourceVersion)
	return updated, nil
}
