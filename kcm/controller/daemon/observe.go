package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// observed is what one sync knows. Everything in it is the cache's and must
// not be changed.
type observed struct {
	// set is nil when it is gone.
	set *appsv1.DaemonSet
	// places are all nodes, by name.
	places []place
	// lost are pods that were never bound and whose node is not there. No
	// other loop deletes them.
	lost []*corev1.Pod
	// revisions are the set's, in no order.
	revisions []*appsv1.ControllerRevision
	// inUse are the hashes that its pods have, wherever they are.
	inUse sets.Set[string]
	// history tells which revision is the current one, once that has been settled.
	history
	// mayAct says that the cache shows all that earlier syncs have created and
	// deleted, or that this was waited for long enough.
	mayAct bool
	now    time.Time
}

// place is a node with what the set wants there, and what it has.
type place struct {
	node string
	verdict
	// pods are the set's pods that are there or are meant to be, bound ones
	// before others, and older ones before younger. One that has ended and
	// whose deletion was asked for is left out: it only waits for a finalizer.
	pods []*corev1.Pod
	// pause is how long a pod that has failed here is still left alone.
	pause time.Duration
	// refused is the longer, the more tries to create a pod here have failed of late.
	refused time.Duration
}

// observe reads the set, its pods and its history, and claims what is its own.
func (c *Controller) observe(ctx context.Context, key cache.ObjectName) (observed, error) {
	all := []controller.GatedOwnWrites{c.podWrites, c.setWrites, c.revisionWrites}
	for _, writes := range all {
		if err := writes.Observed(key); err != nil {
			return observed{}, err
		}
	}
	set, err := c.set(key)
	if apierrors.IsNotFound(err) {
		c.expectations.Forget(key)
		for _, writes := range all {
			writes.Forget(key)
		}
		return observed{}, nil
	}
	if err != nil {
		return observed{}, fmt.Errorf("read DaemonSet %s: %w", key, err)
	}
	if set.DeletionTimestamp != nil {
		return observed{set: set}, nil
	}
	// Expectations are asked before the pods are read, so that a pod whose
	// notification was the last expected is among those read.
	seen := observed{set: set, mayAct: c.expectations.Satisfied(set), now: c.clock.Now()}
	pods, err := c.claimOwned(ctx, &seen)
	if err != nil {
		return observed{}, fmt.Errorf("what belongs to DaemonSet %s: %w", key, err)
	}
	return seen, c.observeNodes(&seen, pods)
}

// claimOwned adopts and releases pods and revisions. It returns the pods, and
// reads the revisions into seen.
func (c *Controller) claimOwned(ctx context.Context, seen *observed) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(seen.set.Spec.Selector)
	if err != nil {
		return nil, err
	}
	pods, err := c.podIndex.OwnedByOrOrphans(seen.set)
	if err != nil {
		return nil, err
	}
	revisions, err := c.revisionIndex.OwnedByOrOrphans(seen.set)
	if err != nil {
		return nil, err
	}
	canAdopt := controller.CanAdopt(seen.set, func(ctx context.Context) (*appsv1.DaemonSet, error) {
		return c.client.AppsV1().DaemonSets(seen.set.Namespace).Get(ctx, seen.set.Name, metav1.GetOptions{})
	})
	revisionClaimer := controller.Claimer[*appsv1.ControllerRevision]{
		Owner: seen.set, Kind: kind, Selector: selector, CanAdopt: canAdopt,
		Patch: c.patchRevision(seen.set),
	}
	if seen.revisions, err = revisionClaimer.Claim(ctx, revisions); err != nil {
		return nil, err
	}
	podClaimer := controller.Claimer[*corev1.Pod]{
		Owner: seen.set, Kind: kind, Selector: selector, CanAdopt: canAdopt,
		Patch: c.patchPod(seen.set),
	}
	return podClaimer.Claim(ctx, pods)
}

// observeNodes puts the pods in their places.
func (c *Controller) observeNodes(seen *observed, pods []*corev1.Pod) error {
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	slices.SortFunc(pods, byAge)
	seen.inUse = sets.New[string]()
	byNode := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		seen.inUse.Insert(pod.Labels[hashLabel])
		if pod.DeletionTimestamp == nil || !hasEnded(pod) {
			byNode[nodeOf(pod)] = append(byNode[nodeOf(pod)], pod)
		}
	}
	demands := demandsOf(seen.set)
	for _, node := range nodes {
		place := place{node: node.Name, verdict: demands.verdictOn(node), pods: byNode[node.Name]}
		if slices.ContainsFunc(place.pods, hasFailed) {
			place.pause = c.pause(seen.set, node.Name, seen.now)
		}
		if len(place.pods) == 0 {
			place.refused = c.failures.Get(refusalKey(seen.set, node.Name))
		}
		seen.places = append(seen.places, place)
		delete(byNode, node.Name)
	}
	delete(byNode, "") // of pods that say nothing of a node nothing is known
	for _, pods := range byNode {
		for _, pod := range pods {
			if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
				seen.lost = append(seen.lost, pod)
			}
		}
	}
	slices.SortFunc(seen.places, func(a, b place) int { return cmp.Compare(a.node, b.node) })
	return nil
}
