// Package clusterroleaggregation puts together the rules of ClusterRoles that say by labels
// whose rules they have. The roles admin, edit and view are of this kind: who adds a kind of
// objects to a cluster adds a role with a label, and leaves these three alone.
//
// An aggregated role, one with an aggregationRule, has the rules of the plain roles that it
// selects, and those of the plain roles that the aggregated roles among the selected ones have
// come by in the same way. Plain roles are the only source: what stands in an aggregated role
// is a result, and never a reason. So a rule goes when the last plain role that gives it does,
// also where roles select each other, and a role that has just lost its rules takes them from
// no other. (The original copies what it finds in the selected roles, whatever they are. Roles
// that select each other then keep for ever what one of them has ever had.)
//
// So a policy that keeps a rule out of one aggregated role keeps it out of no other. It has to name
// them all, or the plain role.
//
// Not guaranteed is that no moment passes without rights: if a user writes rules: [] into an
// aggregated role, that is so until this loop has written, too
// (https://issue.k8s.io/118648).
package clusterroleaggregation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// fieldManager is who the API server takes for the owner of the rules.
const fieldManager = "clusterrole-aggregation-controller"

// Controller writes the rules of each aggregated ClusterRole, and nothing else of it. It reads
// ClusterRoles alone.
type Controller struct {
	client rbacv1client.ClusterRolesGetter
	cached rbaclisters.ClusterRoleLister
	graph  graph
	writes *controller.OwnWrites
	synced cache.InformerSynced
	loop   *controller.Loop[cache.ObjectName]
}

// New returns a controller that watches ClusterRoles with the informer, which the caller
// starts, and writes through client. It adds two indexes to the informer, and sends no request
// yet.
func New(roleInformer rbacinformers.ClusterRoleInformer, client rbacv1client.ClusterRolesGetter) *Controller {
	informer := roleInformer.Informer()
	c := &Controller{
		client: client,
		cached: roleInformer.Lister(),
		graph:  newGraph(informer),
		writes: controller.NewOwnWrites(informer.GetStore()),
	}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       "clusterrole-aggregation-controller",
		QueueName:  "ClusterRoleAggregator",
		Sync:       c.sync,
		MaxRetries: controller.RetryForever,
	})
	cameOrWent := func(role *rbacv1.ClusterRole) {
		c.wake(role)
		c.wakeDependents(role.Labels)
	}
	c.synced = controller.Handle(informer, controller.Handlers[*rbacv1.ClusterRole]{
		Add: cameOrWent, Update: c.changed, Delete: cameOrWent,
	})
	return c
}

// changed has those roles looked at whose rules may have to be others after a change of this one.
func (c *Controller) changed(old, role *rbacv1.ClusterRole) {
	rewritten := !equality.Semantic.DeepEqual(old.Rules, role.Rules)
	reselects := !equality.Semantic.DeepEqual(old.AggregationRule, role.AggregationRule)
	if rewritten || reselects {
		c.wake(role)
	}
	gives := reselects || rewritten && !isAggregated(role)
	if gives || !maps.Equal(old.Labels, role.Labels) {
		c.wakeDependents(old.Labels, role.Labels)
	}
}

// wake has a role looked at. A plain one is nothing to this loop.
func (c *Controller) wake(role *rbacv1.ClusterRole) {
	if isAggregated(role) {
		c.loop.Add(cache.MetaObjectToName(role))
	}
}

// wakeDependents has those roles looked at whose rules depend on a role that has such labels, or
// has had others.
func (c *Controller) wakeDependents(labels ...map[string]string) {
	for _, name := range c.graph.dependents(labels...) {
		c.loop.Add(cache.NewObjectName(metav1.NamespaceNone, name))
	}
}

// Run works on as many roles at a time as there are workers, until ctx ends and the last worker
// has finished. What fails is tried again, ever less often: what a policy refuses today it may
// allow tomorrow, and nobody tells this loop.
func (c *Controller) Run(ctx context.Context, workers int) {
	c.loop.Run(ctx, workers, c.synced)
}

func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	if err := c.writes.Observed(key); err != nil {
		return err
	}
	role, err := c.cached.Get(key.Name)
	if err != nil {
		c.writes.Forget(key)
		return nil // it is gone: a cache has no other error
	}
	if !isAggregated(role) {
		return nil
	}
	rules, differ := decide(role, sources(role, c.graph.selection()))
	if !differ {
		return nil
	}
	return c.apply(ctx, role, rules)
}

// apply writes the rules into the role that was looked at, as it was then. Written into another role
// of that name, or into one that is plain by now, they would be rules that nobody has given it, and
// nothing would take them out again. If the role is gone, the UID keeps the API server from
// making a new one. (The original names neither.)
//
// It says rules: [] where there are none. To leave out the field, as the original does, takes
// back what this field manager has written, and leaves what a user has.
func (c *Controller) apply(ctx context.Context, role *rbacv1.ClusterRole, rules []rbacv1.PolicyRule) error {
	wanted, err := json.Marshal(map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(),
		"kind":       "ClusterRole",
		"metadata":   map[string]any{"name": role.Name, "uid": role.UID, "resourceVersion": role.ResourceVersion},
		"rules":      rules,
	})
	if err != nil {
		return fmt.Errorf("write down the rules of cluster role %s: %w", klog.KObj(role), err)
	}
	applied, err := c.client.ClusterRoles().Patch(ctx, role.Name, types.ApplyPatchType, wanted,
		metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)})
	if err != nil {
		return fmt.Errorf("apply rules to cluster role %s: %w", klog.KObj(role), controller.StaleIfChanged(err))
	}
	c.writes.Wrote(cache.MetaObjectToName(role), applied.ResourceVersion)
	klog.FromContext(ctx).V(4).Info("Rules were aggregated", "clusterRole", klog.KObj(role), "rules", len(rules))
	return nil
}
