package main

import (
	"context"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// restart starts a replica where there is much to read and one Deployment to
// work on. Another has been there before and has left nothing else to do.
func (t *trial) restart(ctx context.Context) error {
	if err := t.fillNeighbourhood(ctx, neighbours[len(neighbours)-1]); err != nil {
		return err
	}
	if err := t.leadNeighbourhood(ctx); err != nil {
		return err
	}
	t.leader.end(syscall.SIGTERM)
	if err := t.listNeighbourhood(ctx); err != nil {
		return err
	}
	created := t.watch.existing(restartNamespace, 1)
	if _, err := t.client.AppsV1().Deployments(restartNamespace).Create(ctx, newDeployment("web", 1), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := t.lead(ctx); err != nil {
		return err
	}
	at, err := t.watch.await(ctx, "a pod is created", restartNamespace, created)
	if err != nil {
		return err
	}
	t.set(keyRestart, at.Sub(t.leader.started))
	// The garbage collector is the last to have read everything.
	if err := t.awaitCollector(ctx); err != nil {
		return err
	}
	used, err := t.leader.usage()
	if err != nil {
		return err
	}
	t.result.Values[keyRestartPeak] = used.peak
	t.say("restart with %d Deployments of %d ReplicaSets: a pod after %.2f s, a plain client has listed all after %.2f s; peak RSS %.0f MiB",
		t.neighbours, oldReplicaSets, t.result.Values[keyRestart], t.result.Values[keyRestartListed], used.peak)
	t.leader.end(syscall.SIGTERM)
	return nil
}

// listNeighbourhood measures how long a plain client takes for the same lists,
// one after the other: no manager can have read them much sooner.
func (t *trial) listNeighbourhood(ctx context.Context) error {
	begin, apps := time.Now(), t.client.AppsV1()
	if _, err := apps.Deployments(growthNamespace).List(ctx, metav1.ListOptions{}); err != nil {
		return err
	}
	if _, err := apps.ReplicaSets(growthNamespace).List(ctx, metav1.ListOptions{}); err != nil {
		return err
	}
	t.set(keyRestartListed, time.Since(begin))
	return nil
}
