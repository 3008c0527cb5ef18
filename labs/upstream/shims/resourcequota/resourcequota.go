// Package resourcequota stands for k8s.io/kubernetes/pkg/controller/resourcequota.
package resourcequota

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kcm-book/kcm-book/kcm/controller/resourcequota"
)

// discovery returns the namespaced resources that there are.
type discovery = func() ([]*metav1.APIResourceList, error)

// ControllerOptions are upstream's. kcm's loop needs no registry of evaluators, ignores nothing, and starts informers
// by itself.
type ControllerOptions struct {
	QuotaClient               corev1client.ResourceQuotasGetter
	ResourceQuotaInformer     coreinformers.ResourceQuotaInformer
	ResyncPeriod              func() time.Duration
	InformerFactory           informers.SharedInformerFactory
	ReplenishmentResyncPeriod func() time.Duration
	DiscoveryFunc             discovery
	IgnoredResourcesFunc      func() map[schema.GroupResource]struct{}
	InformersStarted          <-chan struct{}
	Registry                  quota.Registry
}

// Controller is kcm's, which asks by itself what there is to count.
type Controller struct{ *resourcequota.Controller }

// NewController returns kcm's loop. The suite counts nothing that it would need a client for metadata for.
func NewController(ctx context.Context, options *ControllerOptions) (*Controller, error) {
	return &Controller{resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:           options.QuotaClient,
		ResourceQuotaInformer: options.ResourceQuotaInformer,
		ResyncPeriod:          options.ResyncPeriod,
		DiscoveryFunc:         options.DiscoveryFunc,
		InformerFactory:       options.InformerFactory,
	})}, nil
}

// Sync returns at once.
func (c *Controller) Sync(context.Context, discovery, time.Duration) {}
