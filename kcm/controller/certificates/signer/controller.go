// Package signer answers approved certificate signing requests with certificates,
// as the four signers that Kubernetes has built in:
// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers
//
// Nobody can take a certificate back: the API server keeps no list of those that
// no longer count, and believes each until its time is over. So these are the
// promises:
//
//   - A certificate is made for what was approved, by the authority of the signer
//     that was asked, and only where the signer's rules allow it. What the rules
//     forbid gets the condition Failed, and that is the last word.
//   - Of one request, nobody outside of this process sees two certificates. Two may
//     be made: by two managers, or by one that was not told that its first answer
//     had arrived. But an answer is an update of the request at the resource version
//     that was read, and the first answer changes that version. The API server
//     refuses the second one.
//   - No key appears in a log, nor in an error.
//
// What an old cache may show is harmless for the same reason: whatever has happened
// to the request since, another answer or another request of its name, has another
// version. And that it was approved cannot have changed.
package signer

import (
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	certificatesinformers "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	certificateslisters "k8s.io/client-go/listers/certificates/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// Controller answers the requests of the signers that it has an authority for.
type Controller struct {
	requests certificatesclient.CertificateSigningRequestInterface
	cached   certificateslisters.CertificateSigningRequestLister
	signers  Signers
	longest  time.Duration
	synced   cache.InformerSynced
	loop     *controller.Loop[cache.ObjectName]
}

// New returns a controller that watches requests with the informer, which the
// caller starts, and writes their status through client. No certificate is valid
// for more than longest from when it is made. New sends no request yet.
func New(
	ctx context.Context,
	client kubernetes.Interface,
	csrInformer certificatesinformers.CertificateSigningRequestInformer,
	signers Signers,
	longest time.Duration,
) *Controller {
	c := &Controller{
		requests: client.CertificatesV1().CertificateSigningRequests(),
		cached:   csrInformer.Lister(),
		signers:  signers,
		longest:  longest,
	}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       "certificatesigningrequest-signing-controller",
		QueueName:  "certificate",
		Sync:       c.sync,
		MaxRetries: controller.RetryForever,
	})
	c.synced = controller.Handle(csrInformer.Informer(), controller.Handlers[*certificatesv1.CertificateSigningRequest]{
		Add:    c.changed,
		Update: func(_, csr *certificatesv1.CertificateSigningRequest) { c.changed(csr) },
	})
	for _, files := range c.files() {
		files.certificates.AddListener(c)
	}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		if signers[name] == nil {
			klog.FromContext(ctx).Info("Requests for this signer are not answered, the flags name no authority for it", "signer", name)
		}
	}
	return c
}

// files returns the files of all authorities. Several signers may have the same.
func (c *Controller) files() []*AuthorityFiles {
	return sets.New(slices.Collect(maps.Values(c.signers))...).UnsortedList()
}

// changed asks for a request to be looked at that waits for one of the signers.
func (c *Controller) changed(csr *certificatesv1.CertificateSigningRequest) {
	if c.signers[csr.Spec.SignerName] != nil && isWaiting(csr) {
		c.loop.Add(keyOf(csr))
	}
}

// keyOf returns the key of a request. It has the signer where that of other objects
// has a namespace, so that the requests of one signer, however many, leave a worker
// to those of another.
func keyOf(csr *certificatesv1.CertificateSigningRequest) cache.ObjectName {
	return cache.NewObjectName(csr.Spec.SignerName, csr.Name)
}

// Enqueue has all requests looked at that wait. It is called when the certificates
// of an authority have changed: its former one may have been at its end.
func (c *Controller) Enqueue() {
	csrs, _ := c.cached.List(labels.Everything()) // a cache has no error
	for _, csr := range csrs {
		c.changed(csr)
	}
}

// Run waits until the cache is filled and then works, as many requests of one
// signer at a time as there are workers, until ctx ends and the last worker has
// finished. An answer that fails is tried again, ever less often. That the request
// is gone, or that another has its name by now, is no failure. The files of the
// authorities are watched meanwhile.
func (c *Controller) Run(ctx context.Context, workers int) {
	var watching sync.WaitGroup
	defer watching.Wait()
	for _, files := range c.files() {
		watching.Go(func() { files.certificates.Run(ctx, 1) })
	}
	c.loop.Run(ctx, workers, c.synced)
}

// sync answers a request. One that cannot be read or signed is left alone and reported:
// nobody can change what is asked for, so another try would end in the same way.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	csr, err := c.cached.Get(key.Name)
	if err != nil || keyOf(csr) != key {
		return nil // it is gone, or another request has its name, and a key of its own
	}
	todo, err := decide(csr)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Certificate signing request cannot be signed", "csr", klog.KObj(csr))
		return nil
	}
	return c.act(ctx, csr, todo)
}

func (c *Controller) act(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, todo plan) error {
	answered := csr.DeepCopy()
	switch {
	case todo.refusal != "":
		answered.Status.Conditions = append(answered.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type:           certificatesv1.CertificateFailed,
			Status:         corev1.ConditionTrue,
			Reason:         "SignerValidationFailure",
			Message:        todo.refusal,
			LastUpdateTime: metav1.Now(),
		})
	case todo.certificate != nil:
		authority := c.signers[csr.Spec.SignerName].current(ctx)
		der, err := authority.Sign(todo.certificate, lifetime(csr.Spec.ExpirationSeconds, c.longest), time.Now())
		if err != nil {
			return fmt.Errorf("sign certificate signing request %s: %w", klog.KObj(csr), err)
		}
		answered.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
	default:
		return nil
	}
	return c.answer(ctx, answered)
}

// answer writes the status of a request, unless the request has changed since it was
// read. Then somebody may have answered it, perhaps this loop, whose answer was
// carried out though it was not told so. The cache will show it.
func (c *Controller) answer(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	_, err := c.requests.UpdateStatus(ctx, csr, metav1.UpdateOptions{})
	if err == nil || controller.IsGone(err) {
		return nil
	}
	return fmt.Errorf("answer certificate signing request %s: %w", klog.KObj(csr), controller.StaleIfChanged(err))
}
