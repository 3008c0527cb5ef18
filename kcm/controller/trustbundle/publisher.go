// Package trustbundle publishes the certificates by which clients recognise the
// API server as a ClusterTrustBundle. Pods mount it where they name its signer,
// kubernetes.io/kube-apiserver-serving, so one object serves all namespaces
// (KEP-3257).
package trustbundle

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// ClusterTrustBundle is the feature gate without which the loop does not run.
const ClusterTrustBundle featuregate.Feature = "ClusterTrustBundle"

// signerName is the signer whose certificates the API server serves with, and
// the only key of the loop.
const signerName = "kubernetes.io/kube-apiserver-serving"

// Publisher keeps one ClusterTrustBundle of the signer
// kubernetes.io/kube-apiserver-serving, whose trust anchors are the root CA, and
// deletes all others of that signer. The name ends with a hash of the
// certificates, so other certificates are another object. The former one goes when
// the new one is there.
type Publisher struct {
	client kubernetes.Interface
	rootCA func() []byte
	api    *api
	loop   *controller.Loop[string]
}

// New returns a publisher of what rootCA returns, a bundle in PEM, which reads and
// writes through client. When the bundle changes, Enqueue has to be called. It
// sends no request yet.
func New(client kubernetes.Interface, rootCA func() []byte) *Publisher {
	registerMetrics()
	p := &Publisher{client: client, rootCA: rootCA}
	p.loop = controller.NewLoop(controller.LoopConfig[string]{
		Name:       "kube-apiserver-serving-clustertrustbundle-publisher-controller",
		QueueName:  "ca_cert_publisher_cluster_trust_bundles",
		Sync:       p.sync,
		MaxRetries: controller.RetryForever,
	})
	p.Enqueue() // there may be no bundle yet, and then nothing else wakes the loop
	return p
}

// Enqueue has the bundles compared with the root CA.
func (p *Publisher) Enqueue() { p.loop.Add(signerName) }

// Run waits until the API server serves ClusterTrustBundles and then works until
// ctx ends and the last worker has finished. There is one signer, so a second
// worker has nothing to do.
func (p *Publisher) Run(ctx context.Context, workers int) {
	p.api = findAPI(ctx, p.client)
	if p.api == nil {
		p.loop.Run(ctx, workers) // ctx has ended: it only shuts the queue down
		return
	}
	woken := func(metav1.Object) { p.Enqueue() }
	synced := controller.Handle(p.api.informer, controller.Handlers[metav1.Object]{
		Add:    woken,
		Update: func(_, bundle metav1.Object) { woken(bundle) },
		Delete: woken,
	})
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { p.api.informer.RunWithContext(ctx) })
	p.loop.Run(ctx, workers, synced)
}

// sync brings the bundles closer to the root CA. If the API server finds that the
// root CA is no list of trust anchors, it will find so each time, so the loop rests
// until it is given another.
func (p *Publisher) sync(ctx context.Context, _ string) error {
	start := time.Now()
	err := p.act(ctx, decide(p.api.bundles(), p.rootCA()))
	measure(start, err)
	if isNoTrustBundle(err) {
		klog.FromContext(ctx).Error(err, "The API server takes no such root CA for a cluster trust bundle; it is published when there is another")
		return nil
	}
	return err
}

// isNoTrustBundle tells whether a bundle was refused for its certificates: one
// that is there twice, for example, or one that is not a CA's. A policy that is
// against it may change its mind.
func isNoTrustBundle(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsInvalid(err) && status.Status().Details != nil &&
		slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field == "spec.trustBundle" })
}

// plan is a bundle to create or one to update, or neither, and then those to
// delete.
type plan struct {
	create, update *certificatesv1beta1.ClusterTrustBundle
	deletes        []*certificatesv1beta1.ClusterTrustBundle
}

// decide compares the bundles with the root CA. What is another signer's is none
// of our business, should the API server show it although it was not asked to.
func decide(seen []*certificatesv1beta1.ClusterTrustBundle, rootCA []byte) plan {
	name := nameFor(rootCA)
	p := plan{create: &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signerName, TrustBundle: string(rootCA)},
	}}
	for _, bundle := range seen {
		switch {
		case bundle.Spec.SignerName != signerName:
		case bundle.Name != name && bundle.DeletionTimestamp == nil:
			p.deletes = append(p.deletes, bundle)
		case bundle.Name == name:
			p.create = nil
			if bundle.Spec.TrustBundle != string(rootCA) {
				p.update = bundle.DeepCopy()
				p.update.Spec.TrustBundle = string(rootCA)
			}
		}
	}
	return p
}

// nameFor returns the name of the bundle with these certificates. It has to begin
// with that of the signer, where : stands for /.
func nameFor(rootCA []byte) string {
	hash := sha256.Sum256(rootCA)
	return fmt.Sprintf("%s:%x", strings.ReplaceAll(signerName, "/", ":"), hash[:12])
}

// deletionsAtOnce is how many bundles a sync deletes at most. Each deletion wakes
// the loop, which then begins with what is to be published by that time.
const deletionsAtOnce = 100

// act publishes, and deletes only then: until the new bundle is there, the former
// one is what clients have. A cache that is behind may have it create a bundle that
// is there, or update another version of it, and the API server refuses both. What
// is deleted has to be the object that was looked at; that it is of this signer
// cannot have changed.
func (p *Publisher) act(ctx context.Context, plan plan) error {
	if err := p.publish(ctx, plan); err != nil {
		return err
	}
	var errs []error
	for _, bundle := range plan.deletes[:min(len(plan.deletes), deletionsAtOnce)] {
		err := p.api.Delete(ctx, bundle.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(bundle.UID))})
		if err != nil && !controller.IsGone(err) {
			errs = append(errs, fmt.Errorf("delete cluster trust bundle %s: %w", bundle.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (p *Publisher) publish(ctx context.Context, plan plan) error {
	switch {
	case plan.create != nil:
		if _, err := p.api.Create(ctx, plan.create, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create cluster trust bundle %s: %w", plan.create.Name, err)
		}
		p.loop.AddAfter(signerName, controller.LookAgain) // nobody tells us if it goes before our cache has it
	case plan.update != nil:
		if _, err := p.api.Update(ctx, plan.update, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("update cluster trust bundle %s: %w", plan.update.Name, err)
		}
	}
	return nil
}
