package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// bigReplicas are the pods of the one big Deployment.
	bigReplicas = 1000
	// manyDeployments of manyReplicas pods each come after it.
	manyDeployments = 200
	manyReplicas    = 10
	// manyClients create those Deployments at the same time.
	manyClients = 10
)

// create rolls out the big Deployment.
func (t *trial) create(ctx context.Context) error {
	return t.createPods(ctx, bigNamespace, bigReplicas, "")
}

// createPods rolls out a Deployment of n pods. What it measures is kept under
// the keys of the rows, with a prefix.
func (t *trial) createPods(ctx context.Context, namespace string, n int, prefix string) error {
	exist, ready := t.watch.existing(namespace, n), t.watch.allReady(namespace, n)
	complete := t.watch.complete(namespace, 1, 1)
	before, err := t.leader.usage()
	if err != nil {
		return err
	}
	begin := time.Now()
	if _, err := t.client.AppsV1().Deployments(namespace).Create(ctx, newDeployment("web", n), metav1.CreateOptions{}); err != nil {
		return err
	}
	existed, err := t.watch.await(ctx, "all pods exist", namespace, exist)
	if err != nil {
		return err
	}
	t.set(prefix+keyExist, existed.Sub(begin))
	rate := float64(n) / existed.Sub(begin).Seconds()
	t.result.Values[prefix+keyRate] = rate
	t.say("%d pods: exist after %.2f s, %.0f pods/s", n, existed.Sub(begin).Seconds(), rate)

	wereReady, err := t.watch.await(ctx, "all pods are Ready", namespace, ready)
	if err != nil {
		return err
	}
	t.set(prefix+keyReady, wereReady.Sub(begin))
	// The status comes last. What is measured next starts from rest.
	completed, err := t.watch.await(ctx, "the Deployment is complete", namespace, complete)
	if err != nil {
		return err
	}
	t.set(prefix+keyComplete, completed.Sub(begin))
	t.say("%d pods: Ready after %.2f s", n, wereReady.Sub(begin).Seconds())
	return t.countPerPod(before, begin, n, prefix)
}

// countPerPod keeps what n pods have cost since begin, and the memory that they
// take now.
func (t *trial) countPerPod(before usage, begin time.Time, n int, prefix string) error {
	used, err := t.leader.usage()
	if err != nil {
		return err
	}
	requests, err := t.requests(begin, time.Now())
	if err != nil {
		return err
	}
	values := t.result.Values
	values[prefix+keyPodCPU] = 1000 * (used.cpu - before.cpu) / float64(n)
	values[prefix+keyPodWrites] = float64(len(requests)) / float64(n)
	values[prefix+keyResident], values[prefix+keyAnonymous] = used.resident, used.anonymous
	t.say("%d pods: each %.2f ms of CPU and %.3f API writes; RSS %.0f MiB", n, values[prefix+keyPodCPU], values[prefix+keyPodWrites], used.resident)
	return nil
}

// update changes the big Deployment's image.
func (t *trial) update(ctx context.Context) error {
	begin := time.Now()
	patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`)
	patched, err := t.client.AppsV1().Deployments(bigNamespace).Patch(ctx, "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	complete := t.watch.complete(bigNamespace, 1, patched.Generation)
	completed, err := t.watch.await(ctx, "the rolling update is complete", bigNamespace, complete)
	if err != nil {
		return err
	}
	t.set(keyUpdate, completed.Sub(begin))
	t.say("rolling update: complete after %.2f s", t.result.Values[keyUpdate])
	// The last of the old pods may still be going.
	_, err = t.watch.await(ctx, "the old pods are gone", bigNamespace, t.watch.existing(bigNamespace, bigReplicas))
	return err
}

// scaleToZero takes all pods of the big Deployment away.
func (t *trial) scaleToZero(ctx context.Context) error {
	gone := t.watch.existing(bigNamespace, 0)
	begin := time.Now()
	patch := []byte(`{"spec":{"replicas":0}}`)
	patched, err := t.client.AppsV1().Deployments(bigNamespace).Patch(ctx, "web", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	wereGone, err := t.watch.await(ctx, "no pod is left", bigNamespace, gone)
	if err != nil {
		return err
	}
	t.set(keyZero, wereGone.Sub(begin))
	t.say("scale to zero: no pod after %.2f s", t.result.Values[keyZero])
	complete := t.watch.complete(bigNamespace, 1, patched.Generation)
	_, err = t.watch.await(ctx, "the status says zero", bigNamespace, complete)
	return err
}

// createMany rolls out many Deployments at the same time.
func (t *trial) createMany(ctx context.Context) error {
	const pods = manyDeployments * manyReplicas
	exist, ready := t.watch.existing(manyNamespace, pods), t.watch.allReady(manyNamespace, pods)
	complete := t.watch.complete(manyNamespace, manyDeployments, 1)
	begin := time.Now()
	err := inParallel(ctx, manyDeployments, manyClients, func(ctx context.Context, i int) error {
		d := newDeployment(fmt.Sprintf("web-%03d", i), manyReplicas)
		_, err := t.client.AppsV1().Deployments(manyNamespace).Create(ctx, d, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	existed, err := t.watch.await(ctx, "all pods exist", manyNamespace, exist)
	if err != nil {
		return err
	}
	t.set(keyManyExist, existed.Sub(begin))
	wereReady, err := t.watch.await(ctx, "all pods are Ready", manyNamespace, ready)
	if err != nil {
		return err
	}
	t.set(keyManyReady, wereReady.Sub(begin))
	completed, err := t.watch.await(ctx, "all Deployments are complete", manyNamespace, complete)
	if err != nil {
		return err
	}
	t.set(keyManyComplete, completed.Sub(begin))
	t.say("200 Deployments x 10: exist after %.2f s, Ready after %.2f s", t.result.Values[keyManyExist], t.result.Values[keyManyReady])
	return nil
}

// inParallel calls do with each number below n, for as many at a time as there
// are workers, until one has failed.
func inParallel(ctx context.Context, n, workers int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
