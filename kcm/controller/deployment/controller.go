package deployment

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/trace"
)

// maxRetries is how often a failing deployment is tried again. With the delays
// of the queue's rate limiter, which double from 5 ms on, the last try is
// nearly three minutes after the first.
const maxRetries = 15

// kind is what the controller references of this loop's ReplicaSets name.
var kind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// Reads is what the loop reads of pods.
var Reads = []*controller.Keep{controller.PodState}

// Controller brings the ReplicaSets of each Deployment, their sizes and the
// Deployment's status to what its spec asks for.
type Controller struct {
	client kubernetes.Interface
	events *controller.Events
	loop   *controller.Loop[cache.ObjectName]
	waker  *controller.Waker[*appsv1.Deployment, *appsv1.ReplicaSet]

	deployments appslisters.DeploymentLister
	replicaSets appslisters.ReplicaSetLister
	rsIndex     controller.OwnerIndex[*appsv1.ReplicaSet]
	pods        controller.OwnerIndex[*corev1.Pod]
	synced      []cache.InformerSynced

	deploymentWrites *controller.OwnWrites
	replicaSetWrites *controller.OwnWrites
}

// NewDeploymentController returns a controller that hears of everything that
// the informers see. It starts to work when Run is called.
func NewDeploymentController(
	ctx context.Context,
	dInformer appsinformers.DeploymentInformer,
	rsInformer appsinformers.ReplicaSetInformer,
	podInformer coreinformers.PodInformer,
	client kubernetes.Interface,
) *Controller {
	c := &Controller{
		client:      client,
		events:      controller.NewEvents(ctx, client, "deployment-controller"),
		deployments: dInformer.Lister(),
		replicaSets: rsInformer.Lister(),
		rsIndex:     controller.NewOwnerIndex[*appsv1.ReplicaSet](rsInformer.Informer()),
		pods:        controller.NewOwnerIndex[*corev1.Pod](podInformer.Informer()),

		deploymentWrites: controller.NewOwnWrites(dInformer.Informer().GetStore()),
		replicaSetWrites: controller.NewOwnWrites(rsInformer.Informer().GetStore()),
	}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       "deployment-controller",
		QueueName:  "deployment",
		Sync:       c.sync,
		MaxRetries: maxRetries,
	})
	c.waker = c.newWaker()
	c.synced = []cache.InformerSynced{
		c.watchDeployments(dInformer.Informer()),
		controller.Handle(rsInformer.Informer(), c.waker.Handlers()),
		controller.Handle(podInformer.Informer(), controller.Handlers[*corev1.Pod]{Update: c.podChanged, Delete: c.podEnded}),
	}
	return c
}

// Run syncs deployments with as many workers at a time as it is told, until
// ctx ends and the last worker has finished.
func (c *Controller) Run(ctx context.Context, workers int) {
	defer c.events.Start()()
	c.loop.Run(ctx, workers, c.synced...)
}

// sync is one round for one deployment.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	seen, err := c.observe(ctx, key)
	if err != nil || seen.deployment == nil {
		return err
	}
	if seen, err = c.note(ctx, seen); err != nil {
		return err
	}
	trace.Sees(ctx, seen.facts)
	plan := decide(seen)
	trace.Decides(ctx, plan.facts)
	err = c.act(ctx, seen, plan)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // nothing can be created there any more
	}
	return err
}
