package main

import (
	"context"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// relabelled are the pods whose labels are changed all at the same time.
	relabelled = 1000
	// hugeReplicas are the pods of the largest Deployment.
	hugeReplicas = 5000
)

// createHuge rolls out the largest Deployment.
func (t *trial) createHuge(ctx context.Context) error {
	if err := t.lead(ctx); err != nil {
		return err
	}
	if err := t.createPods(ctx, hugeNamespace, hugeReplicas, huge); err != nil {
		return err
	}
	t.leader.end(syscall.SIGTERM)
	return nil
}

// relabel takes all pods of a ReplicaSet away from it by their labels. They are
// let go of, and as many others have to come.
func (t *trial) relabel(ctx context.Context) error {
	if err := t.lead(ctx); err != nil {
		return err
	}
	ready := t.watch.allReady(relabelNamespace, relabelled)
	rs := newReplicaSet("web")
	rs.Spec.Replicas = new(int32(relabelled))
	if _, err := t.client.AppsV1().ReplicaSets(relabelNamespace).Create(ctx, rs, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := t.watch.await(ctx, "all pods are Ready", relabelNamespace, ready); err != nil {
		return err
	}
	before, err := t.leader.usage()
	if err != nil {
		return err
	}
	replaced := t.watch.allReady(relabelNamespace, 2*relabelled)
	begin := time.Now()
	if err := t.relabelAll(ctx); err != nil {
		return err
	}
	t.set(keyRelabelPatched, time.Since(begin))
	at, err := t.watch.await(ctx, "all pods are replaced", relabelNamespace, replaced)
	if err != nil {
		return err
	}
	t.set(keyRelabel, at.Sub(begin))
	after, err := t.leader.usage()
	if err != nil {
		return err
	}
	t.result.Values[keyRelabelCPU] = after.cpu - before.cpu
	t.say("%d pods relabelled: replaced after %.2f s, CPU %.1f s; a plain client has relabelled them after %.2f s",
		relabelled, at.Sub(begin).Seconds(), after.cpu-before.cpu, t.result.Values[keyRelabelPatched])
	t.leader.end(syscall.SIGTERM)
	return nil
}

func (t *trial) relabelAll(ctx context.Context) error {
	pods := t.client.CoreV1().Pods(relabelNamespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"labels":{"app":"free"}}}`)
	return inParallel(ctx, len(list.Items), limitClients, func(ctx context.Context, i int) error {
		_, err := pods.Patch(ctx, list.Items[i].Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}
