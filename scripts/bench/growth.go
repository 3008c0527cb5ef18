package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// rollouts are counted, of rolledOut Deployments of one pod at the same time.
	rollouts  = 100
	rolledOut = 10
	// oldReplicaSets are what each of their neighbours has kept of its history.
	oldReplicaSets = 10
)

// neighbours are how many other Deployments are in the namespace, one number
// after the other.
var neighbours = []int{200, 1000, 2000}

// keyRolloutTime and keyRolloutCPU are for rollouts among n neighbours.
func keyRolloutTime(n int) string { return fmt.Sprintf("rolloutAmong:%d", n) }
func keyRolloutCPU(n int) string  { return fmt.Sprintf("rolloutCPUAmong:%d", n) }

// grow rolls out the same Deployments among more and more neighbours. These are
// created while no controller manager runs, which would look at all of them
// after each.
func (t *trial) grow(ctx context.Context) error {
	for _, n := range neighbours {
		if err := t.fillNeighbourhood(ctx, n); err != nil {
			return err
		}
		if err := t.rollOutAmong(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// fillNeighbourhood creates the Deployments to roll out, and neighbours until
// there are n, unless they are there already.
func (t *trial) fillNeighbourhood(ctx context.Context, n int) error {
	there := t.neighbours
	if there == 0 {
		err := inParallel(ctx, rolledOut, manyClients, func(ctx context.Context, i int) error {
			_, err := t.client.AppsV1().Deployments(growthNamespace).Create(ctx, newDeployment(rolledOutName(i), 1), metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	t.neighbours = n
	return inParallel(ctx, n-there, limitClients, func(ctx context.Context, i int) error {
		return t.createNeighbour(ctx, fmt.Sprintf("neighbour-%04d", there+i))
	})
}

func rolledOutName(i int) string { return fmt.Sprintf("web-%02d", i) }

// createNeighbour creates a Deployment without pods, and its history.
func (t *trial) createNeighbour(ctx context.Context, name string) error {
	apps, options := t.client.AppsV1(), metav1.CreateOptions{}
	d, err := apps.Deployments(growthNamespace).Create(ctx, newDeployment(name, 0), options)
	if err != nil {
		return err
	}
	for i := range oldReplicaSets {
		rs := newReplicaSet(fmt.Sprintf("%s-%d", name, i))
		labels := map[string]string{"app": name, appsv1.DefaultDeploymentUniqueLabelKey: fmt.Sprint(i)}
		rs.Labels, rs.OwnerReferences = labels, []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		rs.Spec.Replicas, rs.Spec.Selector.MatchLabels, rs.Spec.Template = new(int32), labels, newTemplate(labels)
		rs.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("web:old-%d", i)
		if _, err := apps.ReplicaSets(growthNamespace).Create(ctx, rs, options); err != nil {
			return err
		}
	}
	return nil
}

// leadNeighbourhood starts a replica and waits until it has seen to all that is
// in the neighbourhood.
func (t *trial) leadNeighbourhood(ctx context.Context) error {
	complete := t.watch.complete(growthNamespace, rolledOut+t.neighbours, 1)
	if err := t.lead(ctx); err != nil {
		return err
	}
	_, err := t.watch.await(ctx, "all Deployments are complete", growthNamespace, complete)
	return err
}

// rollOutAmong measures rollouts among n neighbours. A first rollout of each
// Deployment is not counted: it comes to its end when the queues, which are
// full after the start, have been worked off.
func (t *trial) rollOutAmong(ctx context.Context, n int) error {
	if err := t.leadNeighbourhood(ctx); err != nil {
		return err
	}
	if err := t.rollOut(ctx, 1); err != nil {
		return err
	}
	before, err := t.leader.usage()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := t.rollOut(ctx, rollouts/rolledOut); err != nil {
		return err
	}
	t.set(keyRolloutTime(n), time.Since(begin)*rolledOut/rollouts)
	after, err := t.leader.usage()
	if err != nil {
		return err
	}
	t.result.Values[keyRolloutCPU(n)] = 1000 * (after.cpu - before.cpu) / rollouts
	t.say("rollout among %d Deployments: %.2f s, CPU %.1f ms", n, t.result.Values[keyRolloutTime(n)], t.result.Values[keyRolloutCPU(n)])
	t.leader.end(syscall.SIGTERM)
	return nil
}

// rollOut updates each of the Deployments as often as it is told, one version
// after the other.
func (t *trial) rollOut(ctx context.Context, times int) error {
	return inParallel(ctx, rolledOut, rolledOut, func(ctx context.Context, i int) error {
		for range times {
			patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:%d"}]}}}}`, time.Now().UnixNano())
			patched, err := t.client.AppsV1().Deployments(growthNamespace).Patch(ctx, rolledOutName(i), types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				return err
			}
			if _, err := t.watch.await(ctx, "a rollout is complete", growthNamespace, t.watch.completeOne(patched)); err != nil {
				return err
			}
		}
		return nil
	})
}
