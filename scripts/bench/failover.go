package main

import (
	"context"
	"errors"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// failOverClean asks the leader to stop.
func (t *trial) failOverClean(ctx context.Context) error {
	return t.failOver(ctx, syscall.SIGTERM, cleanNamespace, keyClean)
}

// failOverKilled kills the leader.
func (t *trial) failOverKilled(ctx context.Context) error {
	return t.failOver(ctx, syscall.SIGKILL, killedNamespace, keyKilled)
}

// failOver ends the leader and waits until another replica does its work. That
// work appears when the leader's process has ended, so nobody else can have
// done it.
func (t *trial) failOver(ctx context.Context, signal syscall.Signal, namespace, key string) error {
	successor, err := t.startStandby(ctx)
	if err != nil {
		return err
	}
	created := t.watch.existing(namespace, 1)
	begin := time.Now()
	t.leader.end(signal)
	ended := time.Since(begin)
	if _, err := t.client.AppsV1().ReplicaSets(namespace).Create(ctx, newReplicaSet("web"), metav1.CreateOptions{}); err != nil {
		return err
	}
	took, err := t.watch.await(ctx, "the successor has created a pod", namespace, created)
	if err != nil {
		return err
	}
	t.leader = successor
	t.set(key, took.Sub(begin))
	t.set(key+"Ended", ended)
	t.say("failover, %s: leader gone after %.2f s, successor at work after %.2f s", signal, ended.Seconds(), t.result.Values[key])
	return nil
}

// startStandby starts a replica and returns when it waits for the Lease.
func (t *trial) startStandby(ctx context.Context) (*process, error) {
	p, err := t.startReplica()
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return p.waitsForLease(), nil
	})
	if err != nil {
		return nil, errors.Join(errors.New("the second replica does not wait for the Lease"), context.Cause(ctx), err)
	}
	// It has a look at the Lease at once. Starting has cost CPU time, which is
	// not to be part of what is measured next.
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(settleTime):
		return p, nil
	}
}

// settleTime is how long a replica that waits for the Lease gets to come to
// rest.
const settleTime = 3 * time.Second
