// Package bootstrapsigner lets a machine that joins find out whether it is the
// cluster that answers. Before it trusts any certificate, such a machine asks
// for the ConfigMap cluster-info in kube-public, which says where the API server
// is and which CA it has. Here that text is signed with each bootstrap token. Who
// holds one of the tokens, and nobody else, can make a signature of it and check
// one (kubeadm join;
// https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/).
package bootstrapsigner

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// Reads is what the loop reads of Secrets.
var Reads = []*controller.Keep{
	controller.KeepOf(func(kept, whole *corev1.Secret) {
		if isToken(whole) {
			kept.Data = whole.Data
		}
	}),
}

// tokenIndex is the name of the index of the Secrets that are bootstrap tokens,
// and what they all have in it.
const tokenIndex = "bootstrap-token"

// clusterInfo is what is signed, and the only key of the loop.
var clusterInfo = cache.NewObjectName(metav1.NamespacePublic, bootstrapapi.ConfigMapClusterInfo)

// A write that fails is made again after the first of these times, and after twice as
// long each time, up to the second. A machine that joins looks for its signature every
// 5 seconds, and kubeadm gives up after five minutes. With delays of up to 1000 s, as
// other loops have them, the machine would be lost to an obstacle that is long out of
// the way. There is one ConfigMap, so this costs a request every 10 seconds.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// Signer keeps in the data of the ConfigMap kube-public/cluster-info, under
// "jws-kubeconfig-" and the token's ID, a signature of the text under
// "kubeconfig" for each bootstrap token in kube-system that may sign and has not
// run out, and no other signatures. All else in the ConfigMap is the user's.
type Signer struct {
	client     kubernetes.Interface
	informer   cache.SharedIndexInformer // of cluster-info
	configMaps corelisters.ConfigMapNamespaceLister
	secrets    cache.Indexer
	writes     *controller.OwnWrites
	synced     []cache.InformerSynced
	loop       *controller.Loop[cache.ObjectName]
}

// New returns a signer that watches Secrets with the informer, which the caller
// starts, and cluster-info with one of its own, and that writes through client.
// It sends no request yet.
func New(client kubernetes.Interface, secretInformer coreinformers.SecretInformer) *Signer {
	s := &Signer{client: client, informer: newInformer(client), secrets: secretInformer.Informer().GetIndexer()}
	s.configMaps = corelisters.NewConfigMapLister(s.informer.GetIndexer()).ConfigMaps(clusterInfo.Namespace)
	s.writes = controller.NewOwnWrites(s.informer.GetStore())
	s.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:        "bootstrap-signer-controller",
		QueueName:   "bootstrap_signer_queue",
		Sync:        s.sync,
		MaxRetries:  controller.RetryForever,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](firstRetry, lastRetry),
	})
	controller.AddIndex(secretInformer.Informer(), tokenIndex, tokenKeys)
	s.synced = []cache.InformerSynced{
		controller.Handle(secretInformer.Informer(), controller.Handlers[*corev1.Secret]{
			Add:    s.secretChanged,
			Update: func(_, secret *corev1.Secret) { s.secretChanged(secret) },
			Delete: s.secretChanged, // its signature has to go, too
		}),
		controller.Handle(s.informer, controller.Handlers[*corev1.ConfigMap]{
			Add:    s.configMapChanged,
			Update: func(_, cm *corev1.ConfigMap) { s.configMapChanged(cm) },
		}),
	}
	return s
}

// newInformer returns an informer of cluster-info alone, which the role of the
// loop lets it watch. The informer of ConfigMaps that all loops share shows
// those of the root CA and no others.
func newInformer(client kubernetes.Interface) cache.SharedIndexInformer {
	return coreinformers.NewFilteredConfigMapInformer(client, clusterInfo.Namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
		controller.Newest(options)
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, clusterInfo.Name).String()
	})
}

// isToken tells whether a Secret is a bootstrap token. Those elsewhere than in
// kube-system, where whoever may create Secrets could make one, count for nothing.
func isToken(secret *corev1.Secret) bool {
	return secret.Namespace == metav1.NamespaceSystem && secret.Type == bootstrapapi.SecretTypeBootstrapToken
}

// tokenKeys are the keys of a Secret in the index of tokens.
func tokenKeys(obj any) ([]string, error) {
	if isToken(obj.(*corev1.Secret)) {
		return []string{tokenIndex}, nil
	}
	return nil, nil
}

func (s *Signer) secretChanged(secret *corev1.Secret) {
	if isToken(secret) {
		s.loop.Add(clusterInfo)
	}
}

func (s *Signer) configMapChanged(cm *corev1.ConfigMap) {
	if key := cache.MetaObjectToName(cm); key == clusterInfo {
		s.loop.Add(key)
	}
}

// Run watches cluster-info and works until ctx ends and the last worker has
// finished. There is one ConfigMap, so a second worker has nothing to do. A write
// that fails is made again, at last every 10 seconds, from what there is by then.
func (s *Signer) Run(ctx context.Context, workers int) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.informer.RunWithContext(ctx) })
	s.loop.Run(ctx, workers, s.synced...)
}

// sync signs, and has itself called again when the next of the tokens that sign
// runs out. Until the cache shows what the last sync has written it waits: its
// next write would be refused. An old cache of Secrets does no lasting harm, since
// what it does not show yet is told to the handlers later.
func (s *Signer) sync(ctx context.Context, key cache.ObjectName) error {
	if err := s.writes.Observed(key); err != nil {
		return err
	}
	seen, err := s.configMaps.Get(key.Name)
	if err != nil {
		return nil // there is none: a cache has no other error
	}
	todo := decide(seen, s.tokens(), time.Now())
	todo.explain(klog.FromContext(ctx), seen)
	if !todo.again.IsZero() {
		s.loop.AddAfter(key, time.Until(todo.again))
	}
	return s.act(ctx, todo)
}

// tokens returns the Secrets that are bootstrap tokens.
func (s *Signer) tokens() []*corev1.Secret {
	found, _ := s.secrets.ByIndex(tokenIndex, tokenIndex) // an error says that there is no such index
	tokens := make([]*corev1.Secret, 0, len(found))
	for _, obj := range found {
		tokens = append(tokens, obj.(*corev1.Secret))
	}
	return tokens
}

// explain logs what is not signed. Who waits in vain for a signature ("could not
// find a JWS signature in the cluster-info ConfigMap") finds here why.
func (p plan) explain(logger klog.Logger, seen *corev1.ConfigMap) {
	if p.obstacle != "" {
		logger.Info("Cluster info lacks signatures", "configMap", klog.KObj(seen), "reason", p.obstacle)
	}
	for _, u := range p.unsigned {
		logger.V(3).Info("Nothing is signed with a bootstrap token", "secret", klog.KObj(u.secret), "reason", u.reason)
	}
}

// act writes the ConfigMap as it was looked at, in no other version: the
// signatures are of that text. What the API server refuses, for whatever reason,
// is an error, and so tried again
// (https://github.com/kubernetes/kubernetes/issues/109233). If the ConfigMap is
// gone there is nothing to sign; one that is made anew comes to the handlers.
func (s *Signer) act(ctx context.Context, plan plan) error {
	if plan.update == nil {
		return nil
	}
	cm, err := s.client.CoreV1().ConfigMaps(plan.update.Namespace).Update(ctx, plan.update, metav1.UpdateOptions{})
	switch {
	case controller.IsGone(err):
		return nil
	case err != nil:
		return fmt.Errorf("sign config map %s: %w", klog.KObj(plan.update), err)
	}
	s.writes.Wrote(clusterInfo, cm.ResourceVersion)
	return nil
}
