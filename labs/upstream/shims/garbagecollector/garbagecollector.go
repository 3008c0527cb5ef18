//go:build upstream

// Package garbagecollector stands for k8s.io/kubernetes/pkg/controller/garbagecollector.
package garbagecollector

import (
	"context"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller/garbagecollector"
)

// GarbageCollector is kcm's. The suites also ask what it has seen, which inside/garbagecollector.go answers.
type GarbageCollector struct {
	*garbagecollector.GarbageCollector
}

// NewGarbageCollector returns kcm's loop, which has informers of its own.
func NewGarbageCollector(
	ctx context.Context,
	client kubernetes.Interface,
	metadataClient metadata.Interface,
	mapper meta.ResettableRESTMapper,
	ignored map[schema.GroupResource]struct{},
	_ informerfactory.InformerFactory,
	_ <-chan struct{},
) (*GarbageCollector, error) {
	kcms := garbagecollector.NewGarbageCollector(ctx, client, metadataClient, mapper, client.Discovery(), ignored, nil)
	return &GarbageCollector{kcms}, nil
}

// DefaultIgnoredResources are the resources that the manager ignores unless it is told otherwise.
func DefaultIgnoredResources() map[schema.GroupResource]struct{} {
	return map[schema.GroupResource]struct{}{{Resource: "events"}: {}, {Group: eventsv1.GroupName, Resource: "events"}: {}}
}

// Run works until ctx ends. How long it waits for informers at the beginning is a constant of kcm's.
func (gc *GarbageCollector) Run(ctx context.Context, workers int, _ time.Duration) {
	gc.GarbageCollector.Run(ctx, workers)
}

// Sync has nothing to do: kcm's Run looks for new kinds itself.
func (gc *GarbageCollector) Sync(context.Context, discovery.ServerResourcesInterface, time.Duration) {
}

// IsSynced tells whether the graph shows all that there was when the informers were started.
func (gc *GarbageCollector) IsSynced(klog.Logger) bool { return gc.Synced() }
