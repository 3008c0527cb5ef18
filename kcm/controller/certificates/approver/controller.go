// Package approver approves requests of kubelets for certificates by which they
// are clients of the API server, where the API server says that who asks may have
// one. So nodes join, and renew their certificates, without a person.
package approver

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certificatesinformers "k8s.io/client-go/informers/certificates/v1"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	"k8s.io/client-go/kubernetes"
	certificateslisters "k8s.io/client-go/listers/certificates/v1"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/certificates/refusals"
)

// Controller approves a CertificateSigningRequest that asks for exactly what a
// kubelet needs as a client, if who has created it has one of two rights: to create
// certificatesigningrequests/nodeclient, which is to set up any node, or, for a
// certificate in the creator's own name, certificatesigningrequests/selfnodeclient.
// No object is ever created there; the two are names for rights. All other requests
// are left to people and to other programs. Nothing is ever denied.
//
// An approval cannot be taken back, so it is never given from memory: the API
// server is asked about the rights before each, and the approval names the UID and
// the version of the request that was asked about. What is remembered is that the
// API server has said no, because that is asked again only when the answer may be
// another one (see [refusals.Memory]).
type Controller struct {
	client   kubernetes.Interface
	cached   certificateslisters.CertificateSigningRequestLister
	roles    rbaclisters.ClusterRoleLister
	synced   cache.InformerSynced
	refusals *refusals.Memory
	loop     *controller.Loop[string]
}

// New returns a controller that watches requests with the first informer, and with
// the other two who is given rights. The caller starts them. It sends no request
// yet, and may be called several times in one process.
func New(
	client kubernetes.Interface,
	csrInformer certificatesinformers.CertificateSigningRequestInformer,
	roleInformer rbacinformers.ClusterRoleInformer,
	bindingInformer rbacinformers.ClusterRoleBindingInformer,
) *Controller {
	c := &Controller{client: client, cached: csrInformer.Lister(), roles: roleInformer.Lister(), refusals: refusals.New()}
	c.loop = controller.NewLoop(controller.LoopConfig[string]{
		Name:       "certificatesigningrequest-approving-controller",
		QueueName:  "certificate",
		Sync:       c.sync,
		MaxRetries: controller.RetryForever,
	})
	c.synced = controller.Handle(csrInformer.Informer(), controller.Handlers[*certificatesv1.CertificateSigningRequest]{
		Add:    c.came,
		Update: func(_, csr *certificatesv1.CertificateSigningRequest) { c.changed(csr) },
		Delete: func(csr *certificatesv1.CertificateSigningRequest) { c.refusals.Went(csr.Name) },
	})
	c.watchRights(roleInformer.Informer(), bindingInformer.Informer())
	return c
}

// came asks for a new request to be looked at, also where the API server has just
// refused another one of the same user: by now it may answer otherwise.
func (c *Controller) came(csr *certificatesv1.CertificateSigningRequest) {
	c.refusals.Came(csr.Name)
	c.changed(csr)
}

func (c *Controller) changed(csr *certificatesv1.CertificateSigningRequest) {
	if csr.Spec.SignerName == signerName {
		c.loop.Add(csr.Name)
	}
}

// Run waits until the cache of requests is filled and then works, as many requests
// at a time as there are workers, until ctx ends and the last worker has finished.
// It does not wait for the caches of roles and bindings, of which it reads no rights.
// What fails is tried again, ever less often. That a request is gone, or that another
// has its name by now, is no failure.
func (c *Controller) Run(ctx context.Context, workers int) {
	c.loop.Run(ctx, workers, c.synced)
}

// sync approves a request if the API server answers one of the questions about it
// with yes.
func (c *Controller) sync(ctx context.Context, name string) error {
	csr, err := c.cached.Get(name)
	if err != nil {
		return nil // it is gone: a cache has no other error
	}
	reviews, err := decide(csr)
	if err != nil { // which no retry would change: what is asked for is immutable
		klog.FromContext(ctx).Info("Cannot read what a request asks for", "csr", klog.KObj(csr), "err", err)
	}
	if len(reviews) == 0 {
		return nil
	}
	question := keyOf(reviews)
	if left := c.refusals.Left(name, question); left > 0 {
		c.loop.AddAfter(name, left)
		return nil
	}
	moment := c.refusals.Now()
	granted, err := c.ask(ctx, csr, reviews)
	switch {
	case err != nil:
		return err
	case granted == nil:
		c.refusals.Refused(question, moment)
		c.loop.AddAfter(name, c.refusals.Left(name, question)) // at once if the answer is old already
		return nil
	}
	return c.approve(ctx, csr, granted)
}

// ask returns the first of the reviews of which the API server says that it may be,
// or nil if it says so of none.
func (c *Controller) ask(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, reviews []review) (*review, error) {
	for _, r := range reviews {
		answer, err := c.client.AuthorizationV1().SubjectAccessReviews().
			Create(ctx, &authorizationv1.SubjectAccessReview{Spec: r.question}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("ask whether request %s may be approved: %w", klog.KObj(csr), err)
		}
		if answer.Status.Allowed {
			return &r, nil
		}
	}
	klog.FromContext(ctx).V(4).Info("Who asks for a certificate has no right to it", "csr", klog.KObj(csr), "user", csr.Spec.Username)
	return nil, nil
}

// approve approves the request that was asked about: no other of its name, and none
// that was written since, because it may have been denied.
func (c *Controller) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, granted *review) error {
	_, err := c.client.CertificatesV1().CertificateSigningRequests().
		UpdateApproval(ctx, csr.Name, approved(csr, granted.message), metav1.UpdateOptions{})
	if controller.IsGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("approve request %s: %w", klog.KObj(csr), err)
	}
	klog.FromContext(ctx).V(3).Info("Approved a request", "csr", klog.KObj(csr), "user", csr.Spec.Username,
		"right", granted.question.ResourceAttributes.Subresource)
	return nil
}
