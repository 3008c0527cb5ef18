package app

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/clientbuilder"

	"github.com/kcm-book/kcm-book/kcm/app/config"
	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/trace"
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
	// ComponentConfig has the options of the controllers.
	ComponentConfig config.ComponentConfig
	// InformersStarted is closed when the factory is started. A controller
	// that needs another informer after that starts it itself.
	InformersStarted chan struct{}
	// ResyncPeriod returns a different period each time.
	ResyncPeriod func() time.Duration
	// Metrics counts which controllers run.
	Metrics *controllersmetrics.ControllerManagerMetrics
	// Cloud is what the loops of a cloud work with, or nil.
	Cloud cloudprovider.Interface

	shutdownTimeout time.Duration
	cloudStarted    sync.Once
}

// CreateControllerContext makes the clients and informers that controllers are
// built from. It starts no informer.
func CreateControllerContext(c config.CompletedConfig) (*ControllerContext, error) {
	c.Kubeconfig.Wrap(trace.Writes)
	clientBuilder, root := newClientBuilders(c)
	resync := resyncPeriod(&c.ComponentConfig)
	client, err := root.Client("shared-informers")
	if err != nil {
		return nil, fmt.Errorf("client for the informers: %w", err)
	}
	name, err := cache.NewInformerName(c.InformerName)
	if err != nil {
		return nil, fmt.Errorf("name the informers in metrics: %w", err)
	}
	trim := controller.Trim(reads(NewControllerDescriptors(), c.ComponentConfig.Generic.Controllers)...)
	factory := informers.NewSharedInformerFactoryWithOptions(client, resync(),
		informers.WithTransform(trim), informers.WithInformerName(name), informers.WithTweakListOptions(controller.Newest))
	controllersmetrics.Register()
	controller.ReallyCrash.Store(c.CrashOnPanic)
	return &ControllerContext{
		ClientBuilder:     clientBuilder,
		RootClientBuilder: root,
		InformerFactory:   factory,
		ComponentConfig:   c.ComponentConfig,
		InformersStarted:  make(chan struct{}),
		ResyncPeriod:      resync,
		Metrics:           controllersmetrics.NewControllerManagerMetrics(c.Name),
		Cloud:             c.Cloud,
		shutdownTimeout:   c.ControllerShutdownTimeout,
	}, nil
}

// newClientBuilders returns the builder for controllers and the one with the
// manager's own credentials. They are the same unless each controller is to
// have a ServiceAccount, whose tokens are bound to it and renewed in time.
func newClientBuilders(c config.CompletedConfig) (controllers, root clientbuilder.ControllerClientBuilder) {
	root = clientbuilder.SimpleControllerClientBuilder{ClientConfig: c.Kubeconfig}
	if !c.ComponentConfig.KubeCloudShared.UseServiceAccountCredentials {
		return root, root
	}
	anonymous := rest.AnonymousClientConfig(c.Kubeconfig)
	anonymous.WrapTransport = c.Kubeconfig.WrapTransport // the fence of the election
	return clientbuilder.NewDynamicClientBuilder(anonymous, c.Client.CoreV1(), metav1.NamespaceSystem), root
}

// resyncPeriod returns a function whose results lie between the minimum and
// twice that, so that not all factories, and not all managers, hand out their
// objects again at the same moment.
func resyncPeriod(c *config.ComponentConfig) func() time.Duration {
	return func() time.Duration {
		return time.Duration(float64(c.Generic.MinResyncPeriod.Duration) * (1 + rand.Float64()))
	}
}

// newClient returns the client of a controller. What has to work before the
// others get their credentials uses the manager's.
func (c *ControllerContext) newClient(d *ControllerDescriptor) (kubernetes.Interface, error) {
	builder := c.ClientBuilder
	if d.requiresSpecialHandling {
		builder = c.RootClientBuilder
	}
	kubeconfig, err := builder.Config(d.account)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", d.account, err)
	}
	client, err := kubernetes.NewForConfig(inTurns(kubeconfig))
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", d.account, err)
	}
	return client, nil
}

// inTurns has those requests of clients that have to wait for --kube-api-qps do so
// in turns, namespace by namespace.
func inTurns(kubeconfig *rest.Config) *rest.Config {
	if kubeconfig.QPS > 0 {
		kubeconfig.RateLimiter = controller.NewFairLimiter(kubeconfig.QPS, kubeconfig.Burst)
	}
	return kubeconfig
}

// clientConfig returns the configuration of clients for a controller that asks
// for more than others: so many times as often as --kube-api-qps allows, and
// in bursts of so many times --kube-api-burst.
func (c *ControllerContext) clientConfig(account string, qps float32, burst int) (*rest.Config, error) {
	kubeconfig, err := c.ClientBuilder.Config(account)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", account, err)
	}
	kubeconfig.QPS *= qps
	kubeconfig.Burst *= burst
	return inTurns(kubeconfig), nil
}

// startCloud tells whether there is a cloud, and initialises it before the first
// of its loops is built. That is after the controller that the others depend on:
// the cloud may take a client of its own at once.
func (c *ControllerContext) startCloud(ctx context.Context) bool {
	if c.Cloud == nil {
		return false
	}
	c.cloudStarted.Do(func() {
		c.Cloud.Initialize(c.ClientBuilder, ctx.Done())
		if user, ok := c.Cloud.(cloudprovider.InformerUser); ok {
			user.SetInformers(c.InformerFactory)
		}
	})
	return true
}
