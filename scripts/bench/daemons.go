package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// daemonNodes are the nodes that one DaemonSet is about.
	daemonNodes = 1000
	// idleDaemonSets are others, of which each wants nodes that are not there.
	idleDaemonSets = 100
)

// daemons puts a pod on each of many nodes, changes a label of all of them that
// nobody asks for, and then the one that brought the pods.
func (t *trial) daemons(ctx context.Context) error {
	if err := t.prepareDaemons(ctx); err != nil {
		return err
	}
	if err := t.lead(ctx); err != nil {
		return err
	}
	if err := t.awaitMarker(ctx, "first"); err != nil {
		return err
	}
	steps := []func(context.Context) error{t.createDaemons, t.labelForNobody, t.takeDaemonsAway}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	t.leader.end(syscall.SIGTERM)
	return nil
}

func (t *trial) prepareDaemons(ctx context.Context) error {
	err := inParallel(ctx, daemonNodes, limitClients, func(ctx context.Context, i int) error {
		labels := map[string]string{"agent": "yes"}
		if i == 0 {
			labels["marker"] = "yes"
		}
		_, err := t.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: daemonNode(i), Labels: labels},
		}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return inParallel(ctx, idleDaemonSets, manyClients, func(ctx context.Context, i int) error {
		name := fmt.Sprintf("idle-%03d", i)
		return t.createDaemonSet(ctx, canaryNamespace, name, name)
	})
}

func daemonNode(i int) string { return fmt.Sprintf("daemon-%04d", i) }

// createDaemonSet creates one for the nodes that have a label.
func (t *trial) createDaemonSet(ctx context.Context, namespace, name, label string) error {
	labels := map[string]string{"app": name}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: newTemplate(labels)},
	}
	set.Spec.Template.Spec.NodeSelector = map[string]string{label: "yes"}
	_, err := t.client.AppsV1().DaemonSets(namespace).Create(ctx, set, metav1.CreateOptions{})
	return err
}

// awaitMarker waits for the pod of a DaemonSet for one node, so that what came
// before it has been dealt with.
func (t *trial) awaitMarker(ctx context.Context, name string) error {
	one := t.watch.existing(canaryNamespace, t.markers+1)
	t.markers++
	if err := t.createDaemonSet(ctx, canaryNamespace, name, "marker"); err != nil {
		return err
	}
	_, err := t.watch.await(ctx, "a node has its pod", canaryNamespace, one)
	return err
}

// createDaemons brings the pods.
func (t *trial) createDaemons(ctx context.Context) error {
	ready := t.watch.allReady(daemonNamespace, daemonNodes)
	before, err := t.leader.usage()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := t.createDaemonSet(ctx, daemonNamespace, "agent", "agent"); err != nil {
		return err
	}
	at, err := t.watch.await(ctx, "all nodes have their pods", daemonNamespace, ready)
	if err != nil {
		return err
	}
	t.set(keyDaemons, at.Sub(begin))
	used, err := t.leader.usage()
	if err != nil {
		return err
	}
	requests, err := t.requests(begin, time.Now())
	if err != nil {
		return err
	}
	t.result.Values[keyDaemonsCPU] = 1000 * (used.cpu - before.cpu) / daemonNodes
	t.result.Values[keyDaemonsWrites] = float64(len(requests)) / daemonNodes
	t.say("%d nodes have their pods Ready after %.2f s; each %.2f ms of CPU and %.3f API writes",
		daemonNodes, at.Sub(begin).Seconds(), t.result.Values[keyDaemonsCPU], t.result.Values[keyDaemonsWrites])
	return nil
}

// labelForNobody gives all nodes a label that no DaemonSet asks for.
func (t *trial) labelForNobody(ctx context.Context) error {
	before, err := t.leader.usage()
	if err != nil {
		return err
	}
	if err := t.patchNodes(ctx, `{"metadata":{"labels":{"colour":"red"}}}`); err != nil {
		return err
	}
	if err := t.awaitMarker(ctx, "second"); err != nil {
		return err
	}
	used, err := t.leader.usage()
	if err != nil {
		return err
	}
	t.result.Values[keyLabelCPU] = used.cpu - before.cpu
	t.say("%d nodes got a label that nobody asks for: CPU %.2f s", daemonNodes, used.cpu-before.cpu)
	return nil
}

// takeDaemonsAway takes the label away that brought the pods.
func (t *trial) takeDaemonsAway(ctx context.Context) error {
	gone := t.watch.existing(daemonNamespace, 0)
	begin := time.Now()
	if err := t.patchNodes(ctx, `{"metadata":{"labels":{"agent":null}}}`); err != nil {
		return err
	}
	t.set(keyDaemonsPatched, time.Since(begin))
	at, err := t.watch.await(ctx, "no node has a pod", daemonNamespace, gone)
	if err != nil {
		return err
	}
	t.set(keyDaemonsGone, at.Sub(begin))
	requests, err := t.requests(begin, time.Now())
	if err != nil {
		return err
	}
	t.result.Values[keyDaemonsGoneWrites] = float64(len(requests)) / daemonNodes
	t.say("%d nodes lost their label: no pod after %.2f s, %.3f API writes for each; a plain client has taken it away after %.2f s", daemonNodes,
		at.Sub(begin).Seconds(), t.result.Values[keyDaemonsGoneWrites], t.result.Values[keyDaemonsPatched])
	return nil
}

func (t *trial) patchNodes(ctx context.Context, patch string) error {
	return inParallel(ctx, daemonNodes, limitClients, func(ctx context.Context, i int) error {
		_, err := t.client.CoreV1().Nodes().Patch(ctx, daemonNode(i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}
