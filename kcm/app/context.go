package app

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/controller-manager/pkg/informerfactory"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// ControllerContext is what controllers are built from.
type ControllerContext struct {
	// ClientBuilder makes clients for controllers: with the manager's
	// credentials, or with those of a ServiceAccount for each.
	ClientBuilder clientbuilder.ControllerClientBuilder
	// RootClientBuilder makes clients with the manager's credentials, for
	// what has to work before anything else does.
	RootClientBuilder clientbuilder.ControllerClientBuilder
	// InformerFactory has one cache for each kind of object, which all
	// controllers share.
	InformerFactory informers.SharedInformerFactory
	// ObjectOrMetadataInformerFactory gives the same caches, and for kinds
	// that nobody here knows caches of their metadata.
	ObjectOrMetadataInformerFactory informerfactory.InformerFactory
	// ComponentConfig has the options of the controllers.
	ComponentConfig config.ComponentConfig
	// RESTMapper translates between kinds and resources, new ones included.
	RESTMapper *restmapper.DeferredDiscoveryRESTMapper
	// InformersStarted is closed when the factories are started. A controller
	// that needs another informer after that starts it itself.
	InformersStarted chan struct{}
	// ResyncPeriod returns a different period each time.
	ResyncPeriod func() time.Duration
	// Metrics counts which controllers run.
	Metrics *controllersmetrics.ControllerManagerMetrics

	metadataInformers metadatainformer.SharedInformerFactory
	shutdownTimeout   time.Duration
}

// CreateControllerContext makes the clients and informers that controllers are
// built from. It starts no informer.
func CreateControllerContext(ctx context.Context, c config.CompletedConfig) (*ControllerContext, error) {
	clientBuilder, root := newClientBuilders(c)
	resync := resyncPeriod(&c.ComponentConfig)
	client, err := root.Client("shared-informers")
	if err != nil {
		return nil, fmt.Errorf("client for the informers: %w", err)
	}
	metadataClient, err := newMetadataClient(root)
	if err != nil {
		return nil, err
	}
	mapper, err := newRESTMapper(ctx, root)
	if err != nil {
		return nil, err
	}
	informerName, err := cache.NewInformerName(config.ManagerName)
	if err != nil {
		return nil, fmt.Errorf("name the informers: %w", err)
	}
	typed := informers.NewSharedInformerFactoryWithOptions(client, resync(),
		informers.WithTransform(trimManagedFields), informers.WithInformerName(informerName))
	metadataOnly := metadatainformer.NewSharedInformerFactoryWithOptions(metadataClient, resync(), metadatainformer.WithTransform(trimManagedFields))
	controllersmetrics.Register()
	return &ControllerContext{
		ClientBuilder:                   clientBuilder,
		RootClientBuilder:               root,
		InformerFactory:                 typed,
		ObjectOrMetadataInformerFactory: informerfactory.NewInformerFactory(typed, metadataOnly),
		ComponentConfig:                 c.ComponentConfig,
		RESTMapper:                      mapper,
		InformersStarted:                make(chan struct{}),
		ResyncPeriod:                    resync,
		Metrics:                         controllersmetrics.NewControllerManagerMetrics(config.ManagerName),
		metadataInformers:               metadataOnly,
		shutdownTimeout:                 c.ControllerShutdownTimeout,
	}, nil
}

// newClientBuilders returns the builder for controllers and the one with the
// manager's own credentials. They are the same unless each controller is to
// have a ServiceAccount, whose tokens are bound to it and renewed in time.
func newClientBuilders(c config.CompletedConfig) (controllers, root clientbuilder.ControllerClientBuilder) {
	root = clientbuilder.SimpleControllerClientBuilder{ClientConfig: c.Kubeconfig}
	if !c.ComponentConfig.UseServiceAccountCredentials {
		return root, root
	}
	return clientbuilder.NewDynamicClientBuilder(
		rest.AnonymousClientConfig(c.Kubeconfig), c.Client.CoreV1(), metav1.NamespaceSystem), root
}

func newMetadataClient(root clientbuilder.ControllerClientBuilder) (metadata.Interface, error) {
	kubeconfig, err := root.Config("metadata-informers")
	if err != nil {
		return nil, fmt.Errorf("client for the metadata informers: %w", err)
	}
	return metadata.NewForConfig(kubeconfig)
}

// newRESTMapper returns a mapper that forgets every 30 seconds what it has
// discovered, and so comes to know what has been installed in the meantime.
func newRESTMapper(ctx context.Context, root clientbuilder.ControllerClientBuilder) (*restmapper.DeferredDiscoveryRESTMapper, error) {
	client, err := root.DiscoveryClient("controller-discovery")
	if err != nil {
		return nil, fmt.Errorf("client for discovery: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	go wait.UntilWithContext(ctx, func(context.Context) { mapper.Reset() }, 30*time.Second)
	return mapper, nil
}

// resyncPeriod returns a function whose results lie between the minimum and
// twice that, so that not all factories, and not all managers, hand out their
// objects again at the same moment.
func resyncPeriod(c *config.ComponentConfig) func() time.Duration {
	return func() time.Duration {
		return time.Duration(float64(c.Generic.MinResyncPeriod.Duration) * (1 + rand.Float64()))
	}
}

// trimManagedFields drops what no controller reads before it is cached. It is
// often the larger part of an object.
func trimManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}

// IsControllerEnabled tells whether --controllers wants the controller. The
// first item that names it decides; "*" speaks for those that none names.
func (c *ControllerContext) IsControllerEnabled(d *ControllerDescriptor) bool {
	controllers := c.ComponentConfig.Generic.Controllers
	for _, item := range controllers {
		switch item {
		case d.name:
			return true
		case "-" + d.name:
			return false
		}
	}
	return slices.Contains(controllers, "*") && !d.disabledByDefault
}

// NewClient returns a client for the controller that goes by name.
func (c *ControllerContext) NewClient(name string) (kubernetes.Interface, error) {
	client, err := c.ClientBuilder.Client(name)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", name, err)
	}
	return client, nil
}
