package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// servedPods are behind the Service that is rolled out.
	servedPods = 1000
	// fewServices and manyServices are beside the one whose pod changes.
	fewServices, manyServices = 10, 1000
	// relabels is how often a pod leaves its Service or comes back.
	relabels = 200
)

// rollOutService brings the pods of a Service, and then others in their place.
func (t *trial) rollOutService(ctx context.Context) error {
	if err := t.lead(ctx); err != nil {
		return err
	}
	defer func() { t.leader.end(syscall.SIGTERM) }()
	workloads, err := t.start(t.bench.workloads())
	if err != nil {
		return err
	}
	defer workloads.end(syscall.SIGTERM)
	told, stop, err := watchTold(ctx, t.client, rolloutNamespace)
	if err != nil {
		return err
	}
	defer stop()
	if err := t.createService(ctx, rolloutNamespace, "web"); err != nil {
		return err
	}
	deployments := t.client.AppsV1().Deployments(rolloutNamespace)
	err = t.measureRollout(ctx, told, "web:1", served, func() error {
		_, err := deployments.Create(ctx, newDeployment("web", servedPods), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return t.measureRollout(ctx, told, "web:2", replaced, func() error {
		patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`)
		_, err := deployments.Patch(ctx, "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// measureRollout starts something and waits until all pods run an image and are
// told of. What it has cost is kept under the keys of the rows, with a prefix.
func (t *trial) measureRollout(ctx context.Context, told *told, image, prefix string, start func() error) error {
	before, err := t.leader.usage()
	if err != nil {
		return err
	}
	written := told.soFar()
	begin := time.Now()
	if err := start(); err != nil {
		return err
	}
	isSettled := func() bool { return told.settled(servedPods, image) }
	isRight := func() bool { return isSettled() && told.isRight(servedPods) }
	settled, err := told.await(ctx, "all pods are Ready", isSettled)
	if err != nil {
		return err
	}
	right, err := told.await(ctx, "they are told of", isRight)
	if err != nil {
		return err
	}
	clean, err := told.await(ctx, "nothing else is told of", func() bool { return isRight() && told.isClean(servedPods) })
	if err != nil {
		return err
	}
	used, err := t.leader.usage()
	if err != nil {
		return err
	}
	requests, err := t.countRequests(begin, time.Now())
	if err != nil {
		return err
	}
	values := t.result.Values
	for _, e := range requests {
		if e.Resource == "endpoints" || e.Resource == "endpointslices" {
			values[prefix+keyWrites]++
			values[prefix+keyWritesOf(e.Resource)]++
		}
	}
	now := told.soFar()
	values[prefix+keyIdleWrites] = float64(now.idle - written.idle)
	t.set(prefix+keyRight, clean.Sub(begin))
	values[prefix+keyLate] = 1000 * right.Sub(settled).Seconds()
	values[prefix+keyWritten] = float64(now.bytes-written.bytes) / (1 << 20)
	values[prefix+keyServiceCPU] = used.cpu - before.cpu
	t.say("a Service of %d pods, %s: right after %.2f s, ready ones %.0f ms after the last is; %.0f writes (%.0f of slices, %.0f about none that is ready), %.1f MiB, CPU %.2f s",
		servedPods, image, clean.Sub(begin).Seconds(), values[prefix+keyLate], values[prefix+keyWrites], values[prefix+keyWritesOf("endpointslices")],
		values[prefix+keyIdleWrites], values[prefix+keyWritten], values[prefix+keyServiceCPU])
	return nil
}

// createService creates one whose pods have a label of its name.
func (t *trial) createService(ctx context.Context, namespace, name string) error {
	_, err := t.client.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, // there are not addresses enough for all
			Selector:  map[string]string{"app": name},
			Ports:     []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}, metav1.CreateOptions{})
	return err
}

// changeAmongServices has a pod leave its Service and come back, among few other
// Services and among many.
func (t *trial) changeAmongServices(ctx context.Context) error {
	if err := t.lead(ctx); err != nil {
		return err
	}
	defer func() { t.leader.end(syscall.SIGTERM) }()
	if err := t.changeAmong(ctx, fewNamespace, fewServices); err != nil {
		return err
	}
	return t.changeAmong(ctx, crowdedNamespace, manyServices)
}

func (t *trial) changeAmong(ctx context.Context, namespace string, others int) error {
	told, stop, err := watchTold(ctx, t.client, namespace)
	if err != nil {
		return err
	}
	defer stop()
	err = inParallel(ctx, others, limitClients, func(ctx context.Context, i int) error {
		return t.createService(ctx, namespace, fmt.Sprintf("other-%04d", i))
	})
	if err != nil {
		return err
	}
	if err := t.createService(ctx, namespace, "web"); err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}}, Spec: newTemplate(nil).Spec}
	if _, err := t.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	all := func() bool { return told.settled(1, "web:1") && told.isRight(1) && told.services() == others+1 }
	if _, err := told.await(ctx, "all Services are told of", all); err != nil {
		return err
	}
	before, err := t.leader.usage()
	if err != nil {
		return err
	}
	var waited time.Duration
	for i := range relabels {
		took, err := t.relabelOne(ctx, told, namespace, i%2 == 0)
		if err != nil {
			return err
		}
		waited += took
	}
	used, err := t.leader.usage()
	if err != nil {
		return err
	}
	values := t.result.Values
	values[keyChange(others)] = 1000 * waited.Seconds() / relabels
	values[keyChangeCPU(others)] = 1000 * (used.cpu - before.cpu) / relabels
	t.say("a pod changes among %d Services: told after %.1f ms, CPU %.2f ms", others, values[keyChange(others)], values[keyChangeCPU(others)])
	return nil
}

// relabelOne has the pod leave or come back, and returns how long it took until
// that was told.
func (t *trial) relabelOne(ctx context.Context, told *told, namespace string, leaves bool) (time.Duration, error) {
	label, want := "web", 1
	if leaves {
		label, want = "none", 0
	}
	begin := time.Now()
	patch := []byte(`{"metadata":{"labels":{"app":"` + label + `"}}}`)
	if _, err := t.client.CoreV1().Pods(namespace).Patch(ctx, "web", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return 0, err
	}
	at, err := told.await(ctx, "the change is told", func() bool { return told.ready() == [2]int{want, want} })
	return at.Sub(begin), err
}
