package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

const (
	// The namespace that is deleted has doomedDeployments of doomedReplicas
	// pods each, and doomedConfigMaps.
	doomedDeployments = 200
	doomedReplicas    = 5
	doomedConfigMaps  = 1000

	// The graph has ownedObjects, of which orphans lose their owner.
	ownedObjects = 50_000
	orphans      = 10_000
)

// departures counts the ConfigMaps that were deleted, by namespace, and knows
// the namespaces that have gone.
type departures struct {
	moments
	configMaps map[string]int
	namespaces map[string]bool
}

func (t *trial) watchDepartures(ctx context.Context) (d *departures, stop func(), err error) {
	d = &departures{configMaps: map[string]int{}, namespaces: map[string]bool{}}
	stop, err = startInformers(ctx, t.client, func(factory informers.SharedInformerFactory) []cache.InformerSynced {
		core := factory.Core().V1()
		return []cache.InformerSynced{
			controller.Handle(core.ConfigMaps().Informer(), controller.Handlers[*corev1.ConfigMap]{
				Delete: func(c *corev1.ConfigMap) { d.change(func() { d.configMaps[c.Namespace]++ }) },
			}),
			controller.Handle(core.Namespaces().Informer(), controller.Handlers[*corev1.Namespace]{
				Delete: func(ns *corev1.Namespace) { d.change(func() { d.namespaces[ns.Name] = true }) },
			}),
		}
	})
	return d, stop, err
}

// namespace waits until a namespace has gone.
func (d *departures) namespace(ctx context.Context, name string) (time.Time, error) {
	gone := d.when(func() bool { return d.namespaces[name] })
	return d.wait(ctx, "the namespace is gone", gone, func() string { return fmt.Sprintf("%d ConfigMaps gone", d.configMaps[name]) })
}

// ofConfigMaps waits until n ConfigMaps have gone from a namespace.
func (d *departures) ofConfigMaps(ctx context.Context, namespace string, n int) (time.Time, error) {
	gone := d.when(func() bool { return d.configMaps[namespace] == n })
	return d.wait(ctx, fmt.Sprintf("%d ConfigMaps are gone", n), gone, func() string { return fmt.Sprintf("%d gone", d.configMaps[namespace]) })
}

// deleteNamespace deletes a namespace in which there is much. A replica with
// wide limits makes what is in it.
func (t *trial) deleteNamespace(ctx context.Context) error {
	maker, err := t.startReplica()
	if err != nil {
		return err
	}
	if err := t.fillDoomed(ctx); err != nil {
		return err
	}
	maker.end(syscall.SIGTERM)
	if err := t.leadAtDefaults(ctx); err != nil {
		return err
	}
	departures, stop, err := t.watchDepartures(ctx)
	if err != nil {
		return err
	}
	defer stop()
	begin := time.Now()
	if err := t.client.CoreV1().Namespaces().Delete(ctx, doomedNamespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	gone, err := departures.namespace(ctx, doomedNamespace)
	if err != nil {
		return err
	}
	t.set(keyNamespace, gone.Sub(begin))
	requests, err := t.countRequests(begin, gone)
	if err != nil {
		return err
	}
	t.result.Values[keyNamespaceRequests] = float64(len(requests))
	t.say("namespace with 1000 pods: gone after %.2f s, %d requests", t.result.Values[keyNamespace], len(requests))
	return nil
}

// fillDoomed fills the namespace and waits until all is at rest.
func (t *trial) fillDoomed(ctx context.Context) error {
	complete := t.watch.complete(doomedNamespace, doomedDeployments, 1)
	err := inParallel(ctx, doomedDeployments, manyClients, func(ctx context.Context, i int) error {
		d := newDeployment(fmt.Sprintf("web-%03d", i), doomedReplicas)
		_, err := t.client.AppsV1().Deployments(doomedNamespace).Create(ctx, d, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if err := t.createConfigMaps(ctx, doomedNamespace, "settings", doomedConfigMaps, nil); err != nil {
		return err
	}
	_, err = t.watch.await(ctx, "all Deployments are complete", doomedNamespace, complete)
	return err
}

// createConfigMaps creates n empty ConfigMaps that have the owners.
func (t *trial) createConfigMaps(ctx context.Context, namespace, prefix string, n int, owners []metav1.OwnerReference) error {
	return inParallel(ctx, n, limitClients, func(ctx context.Context, i int) error {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%05d", prefix, i), OwnerReferences: owners}}
		_, err := t.client.CoreV1().ConfigMaps(namespace).Create(ctx, c, metav1.CreateOptions{})
		return err
	})
}

// createOwner creates a ConfigMap and returns a reference to it.
func (t *trial) createOwner(ctx context.Context, name string) ([]metav1.OwnerReference, error) {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	owner, err := t.client.CoreV1().ConfigMaps(ownedNamespace).Create(ctx, c, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: owner.UID}}, nil
}

// leadAtDefaults starts a replica with no limits but those that it has by
// itself, and returns when its garbage collector works.
func (t *trial) leadAtDefaults(ctx context.Context) error {
	t.atDefaults = true
	if err := t.lead(ctx); err != nil {
		return err
	}
	return t.awaitCollector(ctx)
}

// awaitCollector returns when the garbage collector has seen all ConfigMaps
// that were created before: it deletes one, whose owner never was, that comes
// after them.
func (t *trial) awaitCollector(ctx context.Context) error {
	departures, stop, err := t.watchDepartures(ctx)
	if err != nil {
		return err
	}
	defer stop()
	never := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "never", UID: "never"}}
	if err := t.createConfigMaps(ctx, canaryNamespace, "canary", 1, never); err != nil {
		return err
	}
	_, err = departures.ofConfigMaps(ctx, canaryNamespace, 1)
	return err
}

// collect fills the garbage collector's graph and takes the owner of a part of
// it away.
func (t *trial) collect(ctx context.Context) error {
	if !t.atDefaults {
		if err := t.leadAtDefaults(ctx); err != nil {
			return err
		}
	}
	before, err := t.profiler.heap(ctx)
	if err != nil {
		return err
	}
	if err := t.fillGraph(ctx); err != nil {
		return err
	}
	after, err := t.profiler.heap(ctx)
	if err != nil {
		return err
	}
	used, err := t.leader.usage()
	if err != nil {
		return err
	}
	t.result.Values[keyObject] = (after - before) / ownedObjects
	t.result.Values[keyGraph] = used.resident
	t.say("50,000 ConfigMaps: %.0f bytes of heap each; RSS %.0f MiB", t.result.Values[keyObject], used.resident)

	departures, stop, err := t.watchDepartures(ctx)
	if err != nil {
		return err
	}
	defer stop()
	begin := time.Now()
	background := metav1.DeletePropagationBackground
	err = t.client.CoreV1().ConfigMaps(ownedNamespace).Delete(ctx, "leaves", metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil {
		return err
	}
	gone, err := departures.ofConfigMaps(ctx, ownedNamespace, 1+orphans)
	if err != nil {
		return err
	}
	t.set(keyCollect, gone.Sub(begin))
	requests, err := t.countRequests(begin, gone)
	if err != nil {
		return err
	}
	t.result.Values[keyCollectRequests] = float64(len(requests))
	t.say("10,000 orphans: collected after %.2f s, %d requests", t.result.Values[keyCollect], len(requests))
	return nil
}

// fillGraph creates the owners and what they own, and returns when the
// collector has seen it.
func (t *trial) fillGraph(ctx context.Context) error {
	for name, n := range map[string]int{"leaves": orphans, "stays": ownedObjects - orphans} {
		owner, err := t.createOwner(ctx, name)
		if err != nil {
			return err
		}
		if err := t.createConfigMaps(ctx, ownedNamespace, "of-"+name, n, owner); err != nil {
			return err
		}
	}
	return t.awaitCollector(ctx)
}
