// Package rootca tells pods how to recognise the API server: it keeps a
// ConfigMap with the root CA bundle in every namespace. The kubelet mounts it
// next to the token of a pod's ServiceAccount (KEP-1205).
package rootca

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// ConfigMapName is the name of the ConfigMap in every namespace.
const ConfigMapName = "kube-root-ca.crt"

// DescriptionAnnotation holds a text for whoever comes across the ConfigMap.
const DescriptionAnnotation = "kubernetes.io/description"

// Description is what the annotation says, word for word as in every other
// cluster.
const Description = "Contains a CA bundle that can be used to verify the kube-apiserver " +
	"when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
	"No other usage is guaranteed across distributions of Kubernetes clusters."

// bundleKey is where the ConfigMap has the CA bundle, in PEM.
const bundleKey = "ca.crt"

// Publisher keeps the ConfigMap in every namespace that is not being deleted.
// Its data holds the CA bundle and nothing else, whatever anybody writes into
// it. A description in other words is left alone for as long as the data is
// right.
type Publisher struct {
	client     kubernetes.Interface
	rootCA     func() []byte
	configMaps corelisters.ConfigMapLister
	namespaces corelisters.NamespaceLister
	synced     []cache.InformerSynced
	loop       *controller.Loop[cache.ObjectName]
}

// NewInformer returns an informer of the one ConfigMap in every namespace. All
// others, which may be many and large, are nobody's business here.
func NewInformer(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return coreinformers.NewFilteredConfigMapInformer(client, metav1.NamespaceAll, resync, byNamespace, func(options *metav1.ListOptions) {
		controller.Newest(options)
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, ConfigMapName).String()
	})
}

// NewPublisher returns a publisher of what rootCA returns, a bundle in PEM. It
// reads the two informers, which the caller starts, and writes through client.
// When the bundle changes, Enqueue has to be called.
func NewPublisher(
	cmInformer coreinformers.ConfigMapInformer,
	nsInformer coreinformers.NamespaceInformer,
	client kubernetes.Interface,
	rootCA func() []byte,
) *Publisher {
	registerMetrics()
	p := &Publisher{client: client, rootCA: rootCA, configMaps: cmInformer.Lister(), namespaces: nsInformer.Lister()}
	p.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       "root-ca-certificate-publisher-controller",
		QueueName:  "root_ca_cert_publisher",
		Sync:       measured(p.sync),
		MaxRetries: controller.RetryForever,
	})
	p.synced = []cache.InformerSynced{
		controller.Handle(nsInformer.Informer(), controller.Handlers[*corev1.Namespace]{
			Add:    p.namespaceChanged,
			Update: func(_, ns *corev1.Namespace) { p.namespaceChanged(ns) },
		}),
		controller.Handle(cmInformer.Informer(), controller.Handlers[*corev1.ConfigMap]{
			Add:    p.configMapChanged, // who has made it may have written anything
			Update: func(_, cm *corev1.ConfigMap) { p.configMapChanged(cm) },
			Delete: p.configMapChanged,
		}),
	}
	return p
}

// Enqueue has the ConfigMap in every namespace compared with the bundle.
func (p *Publisher) Enqueue() {
	namespaces, err := p.namespaces.List(labels.Everything())
	if err != nil {
		return // the cache never fails
	}
	for _, ns := range namespaces {
		p.namespaceChanged(ns)
	}
}

func (p *Publisher) namespaceChanged(ns *corev1.Namespace) {
	if ns.Status.Phase != corev1.NamespaceTerminating {
		p.loop.Add(cache.NewObjectName(ns.Name, ConfigMapName))
	}
}

func (p *Publisher) configMapChanged(cm *corev1.ConfigMap) {
	if cm.Name == ConfigMapName {
		p.loop.Add(cache.MetaObjectToName(cm))
	}
}

// Run works until ctx ends and the last worker has finished.
func (p *Publisher) Run(ctx context.Context, workers int) {
	p.loop.Run(ctx, workers, p.synced...)
}

func (p *Publisher) sync(ctx context.Context, key cache.ObjectName) error {
	seen, err := p.observe(key)
	if err != nil {
		return err
	}
	todo := decide(key.Namespace, seen, p.rootCA())
	if seen != nil && todo.update != nil && ptr.Deref(seen.Immutable, false) && !maps.Equal(seen.Data, todo.update.Data) {
		klog.FromContext(ctx).Info("An immutable config map has another root CA bundle; delete it to have it made anew",
			"configMap", klog.KObj(seen)) // the API server would refuse it for ever
		return nil
	}
	return p.act(ctx, todo)
}

// observe returns the ConfigMap of a namespace, or nil when it has none.
func (p *Publisher) observe(key cache.ObjectName) (*corev1.ConfigMap, error) {
	cm, err := p.configMaps.ConfigMaps(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up config map %s: %w", key, err)
	}
	return cm, nil
}

// plan is a ConfigMap to create or one to update, or nothing.
type plan struct {
	create, update *corev1.ConfigMap
}

// decide compares the ConfigMap of a namespace with what it should be.
func decide(namespace string, seen *corev1.ConfigMap, rootCA []byte) plan {
	data := map[string]string{bundleKey: string(rootCA)}
	if seen == nil {
		return plan{create: &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:   namespace,
				Name:        ConfigMapName,
				Annotations: map[string]string{DescriptionAnnotation: Description},
			},
			Data: data,
		}}
	}
	if maps.Equal(seen.Data, data) && seen.Annotations[DescriptionAnnotation] != "" {
		return plan{}
	}
	cm := seen.DeepCopy()
	cm.Data = data
	delete(cm.BinaryData, bundleKey) // a key may be in one of the two only
	metav1.SetMetaDataAnnotation(&cm.ObjectMeta, DescriptionAnnotation, Description)
	return plan{update: cm}
}

func (p *Publisher) act(ctx context.Context, plan plan) error {
	switch {
	case plan.create != nil:
		return p.create(ctx, plan.create)
	case plan.update != nil:
		return p.update(ctx, plan.update)
	}
	return nil
}

// create leaves it to the API server to say that the namespace is going. It
// has the last word on that anyway, and takes ConfigMaps out of a namespace
// that is being deleted, each of which brings us here.
func (p *Publisher) create(ctx context.Context, cm *corev1.ConfigMap) error {
	_, err := p.client.CoreV1().ConfigMaps(cm.Namespace).Create(ctx, cm, metav1.CreateOptions{})
	if err == nil { // nobody tells us if it goes before our cache has it
		p.loop.AddAfter(cache.MetaObjectToName(cm), controller.LookAgain)
	}
	if err == nil || controller.IsGone(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return fmt.Errorf("create config map %s: %w", klog.KObj(cm), err)
}

func (p *Publisher) update(ctx context.Context, cm *corev1.ConfigMap) error {
	if _, err := p.client.CoreV1().ConfigMaps(cm.Namespace).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update config map %s: %w", klog.KObj(cm), err)
	}
	return nil
}
