package approver

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	certutil "k8s.io/client-go/util/cert"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func init() {
	controller.ReallyCrash.Store(true) // or what panics would be tried again
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

var midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// cluster is one in a bubble, where it is midnight on January 1, 2000.
type cluster struct {
	t      *testing.T
	client *fake.Clientset
	mu     sync.Mutex
	// may is what the API server says of a right, or an error.
	may func(spec authorizationv1.SubjectAccessReviewSpec) (bool, error)
	// refuse is what the API server says to the approval of a request. With lost it has
	// stored the approval all the same.
	refuse func(name string) error
	lost   bool
	// asked are the questions and the approvals, each with its time, and approvals the
	// requests as they were sent.
	asked     []string
	approvals []*certificatesv1.CertificateSigningRequest
}

// told runs a controller in a cluster in which nobody has a right, while something
// happens there, and for two hours after that, and returns what the API server was
// asked, and when. The given requests are there before.
func told(t *testing.T, happens func(c *cluster), there ...*certificatesv1.CertificateSigningRequest) string {
	t.Helper()
	c := &cluster{t: t, may: nobody, refuse: func(string) error { return nil }}
	synctest.Test(t, func(t *testing.T) {
		c.client = fake.NewSimpleClientset()
		for _, csr := range there {
			assert.NoError(t, c.client.Tracker().Add(csr))
		}
		c.client.PrependReactor("create", "subjectaccessreviews", c.reviews)
		c.client.PrependReactor("update", "certificatesigningrequests", c.approves)
		factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(controller.Trim()))
		rbac := factory.Rbac().V1()
		controller := New(c.client, factory.Certificates().V1().CertificateSigningRequests(), rbac.ClusterRoles(), rbac.ClusterRoleBindings())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		factory.Start(ctx.Done())
		synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
		go func() { controller.Run(ctx, 1); close(ended) }()
		synctest.Wait()
		happens(c)
		time.Sleep(2 * time.Hour)
		stop()
		select {
		case <-ended:
		case <-time.After(time.Hour):
			assert.Fail(t, "Run has not returned an hour after its context had ended")
		}
		factory.Shutdown()
	})
	return cmp.Or(strings.Join(c.asked, "; "), "nothing")
}

func nobody(authorizationv1.SubjectAccessReviewSpec) (bool, error) { return false, nil }

func everybody(authorizationv1.SubjectAccessReviewSpec) (bool, error) { return true, nil }

func (c *cluster) reviews(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
	allowed, err := c.may(review.Spec)
	answer := map[bool]string{true: "yes", false: "no"}[allowed]
	if err != nil {
		answer = "error"
	}
	c.note("may %s %s? %s", review.Spec.User, review.Spec.ResourceAttributes.Subresource, answer)
	if err != nil {
		return true, nil, err
	}
	review.Status.Allowed = allowed
	return true, review, nil
}

func (c *cluster) approves(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "approval" {
		return false, nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	csr := action.(clienttesting.UpdateAction).GetObject().(*certificatesv1.CertificateSigningRequest)
	c.note("approve %s", csr.Name)
	c.approvals = append(c.approvals, csr.DeepCopy())
	err := c.refuse(csr.Name)
	if c.lost && err != nil {
		assert.NoError(c.t, c.client.Tracker().Update(action.GetResource(), csr, ""))
	}
	return err != nil, nil, err
}

func (c *cluster) note(format string, arguments ...any) {
	c.asked = append(c.asked, time.Now().UTC().Format(time.TimeOnly)+" "+fmt.Sprintf(format, arguments...))
}

// gives has the API server answer so from now on.
func (c *cluster) gives(may func(authorizationv1.SubjectAccessReviewSpec) (bool, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.may = may
}

// answers has the API server refuse approvals from now on.
func (c *cluster) answers(refuse func(name string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = refuse
}

// count returns how often something was asked so far.
func (c *cluster) count(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Count(strings.Join(c.asked, "; "), what)
}

// after waits until so much time has passed since midnight, and the loop is at rest.
func (c *cluster) after(d time.Duration) {
	time.Sleep(time.Until(midnight.Add(d)))
	synctest.Wait()
}

// has puts requests there, in place of those that have their names.
func (c *cluster) has(requests ...*certificatesv1.CertificateSigningRequest) {
	api := c.client.CertificatesV1().CertificateSigningRequests()
	for _, csr := range requests {
		_, err := api.Update(c.t.Context(), csr, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = api.Create(c.t.Context(), csr, metav1.CreateOptions{})
		}
		assert.NoError(c.t, err)
	}
	synctest.Wait()
}

// binds has somebody give the right to any node's certificate to a group.
func (c *cluster) binds(group string) {
	_, err := c.client.RbacV1().ClusterRoles().Create(c.t.Context(), role("nodeclient", "/nodeclient"), metav1.CreateOptions{})
	assert.NoError(c.t, err)
	_, err = c.client.RbacV1().ClusterRoleBindings().Create(c.t.Context(), binding("auto", "nodeclient", group), metav1.CreateOptions{})
	assert.NoError(c.t, err)
	synctest.Wait()
}

// loses has somebody delete a request.
func (c *cluster) loses(name string) {
	requests := certificatesv1.SchemeGroupVersion.WithResource(resource)
	assert.NoError(c.t, c.client.Tracker().Delete(requests, "", name))
	synctest.Wait()
}

var privateKey = func() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	utilruntime.Must(err)
	return key
}()

// asksFor is what the kubelet of node-1 asks for as a client, changed by edits, in PEM.
func asksFor(edits ...func(*x509.CertificateRequest)) []byte {
	request := &x509.CertificateRequest{Subject: pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:node-1"}}
	for _, edit := range edits {
		edit(request)
	}
	text, err := certutil.MakeCSRFromTemplate(privateKey, request)
	utilruntime.Must(err)
	return text
}

type edit = func(*certificatesv1.CertificateSigningRequest)

// csr is the request of a kubelet that has a bootstrap token, and asks for its first
// certificate.
func csr(edits ...edit) *certificatesv1.CertificateSigningRequest {
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "node-csr", UID: "uid-1", ResourceVersion: "7"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    asksFor(),
			SignerName: "kubernetes.io/kube-apiserver-client-kubelet",
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			Username:   "token",
			Groups:     []string{"system:bootstrappers", "system:authenticated"},
		},
	}
	for _, edit := range edits {
		edit(csr)
	}
	return csr
}

func called(name string) edit {
	return func(csr *certificatesv1.CertificateSigningRequest) { csr.Name, csr.UID = name, types.UID("uid-"+name) }
}

func by(user string) edit {
	return func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.Username = user }
}

// byNode has a node ask, which is in the group of nodes.
func byNode(name string) edit {
	return func(csr *certificatesv1.CertificateSigningRequest) {
		csr.Spec.Username, csr.Spec.Groups = "system:node:"+name, []string{"system:nodes", "system:authenticated"}
	}
}

// renewal is by node-1 itself.
var renewal = byNode("node-1")

func asking(edits ...func(*x509.CertificateRequest)) edit {
	return func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.Request = asksFor(edits...) }
}

func with(conditions ...certificatesv1.RequestConditionType) edit {
	return func(csr *certificatesv1.CertificateSigningRequest) {
		for _, kind := range conditions {
			csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: "True"})
		}
	}
}

// role is one that lets create a subresource of requests.
func role(name, subresource string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests" + subresource}, Verbs: []string{"create"},
		}},
	}
}

// binding gives a role to a group.
func binding(name, role, group string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "Group", Name: group}},
	}
}
