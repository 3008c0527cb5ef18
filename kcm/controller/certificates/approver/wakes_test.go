package approver

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes the loop. It notes what it is asked to look at, and syncs
// that only if it is said to.
func starting(client *fake.Clientset, syncs bool) bubble.Start {
	return func(_ context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		rbac := factory.Rbac().V1()
		c := New(client, factory.Certificates().V1().CertificateSigningRequests(), rbac.ClusterRoles(), rbac.ClusterRoleBindings())
		bubble.Note(&c.loop.Sync, note, syncs)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

// What decisions read of other objects:
//
//   - the request: what it asks for never changes, but whether it is answered does. Any
//     change of it wakes it: a sync reads one cache;
//   - who has which rights, of which the API server knows. A role that comes to hold one of
//     the two, and a binding that gives such a role to others, wake all requests.
func TestTheLoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset) error
	request := func(name string, edit func(*certificatesv1.CertificateSigningRequest)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CertificatesV1().CertificateSigningRequests(), name, edit)
		}
	}
	roleEdited := func(name string, edit func(*rbacv1.ClusterRole)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.RbacV1().ClusterRoles(), name, edit)
		}
	}
	bindingEdited := func(name string, edit func(*rbacv1.ClusterRoleBinding)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.RbacV1().ClusterRoleBindings(), name, edit)
		}
	}
	roleComes := func(role *rbacv1.ClusterRole) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
			return err
		}
	}
	bindingComes := func(binding *rbacv1.ClusterRoleBinding) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
			return err
		}
	}
	labelled := map[string]string{"team": "blue"}
	others := []rbacv1.Subject{{Kind: "User", Name: "jane"}}
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"a request has a label":          {request("mine", func(csr *certificatesv1.CertificateSigningRequest) { csr.Labels = labelled }), "mine"},
		"a request is denied":            {request("mine", with(certificatesv1.CertificateDenied)), "mine"},
		"a request of another signer is": {request("serving", with(certificatesv1.CertificateDenied)), ""},
		"a request comes": {func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.CertificatesV1().CertificateSigningRequests().Create(ctx, csr(called("new")), metav1.CreateOptions{})
			return err
		}, "new"},
		"a request goes": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CertificatesV1().CertificateSigningRequests().Delete(ctx, "mine", metav1.DeleteOptions{})
		}, ""},
		"a role with the right comes":       {roleComes(role("new", "/selfnodeclient")), "mine theirs"},
		"a role without comes":              {roleComes(role("new", "")), ""},
		"a role comes to hold the right":    {roleEdited("other", func(r *rbacv1.ClusterRole) { r.Rules = role("", "/nodeclient").Rules }), "mine theirs"},
		"a role that holds it has a label":  {roleEdited("nodeclient", func(r *rbacv1.ClusterRole) { r.Labels = labelled }), ""},
		"a role holds it no more":           {roleEdited("nodeclient", func(r *rbacv1.ClusterRole) { r.Rules = nil }), ""},
		"others are given the role":         {bindingEdited("auto", func(b *rbacv1.ClusterRoleBinding) { b.Subjects = others }), "mine theirs"},
		"others are given a role without":   {bindingEdited("different", func(b *rbacv1.ClusterRoleBinding) { b.Subjects = others }), ""},
		"a binding has a label":             {bindingEdited("auto", func(b *rbacv1.ClusterRoleBinding) { b.Labels = labelled }), ""},
		"a binding to the role comes":       {bindingComes(binding("new", "nodeclient", "nodes")), "mine theirs"},
		"a binding to a role without comes": {bindingComes(binding("new", "other", "nodes")), ""},
		"a binding to no role comes":        {bindingComes(binding("new", "none", "nodes")), ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			serving := csr(called("serving"), func(csr *certificatesv1.CertificateSigningRequest) {
				csr.Spec.SignerName = "kubernetes.io/kubelet-serving"
			})
			client := fake.NewSimpleClientset(csr(called("mine")), csr(called("theirs"), by("other")), serving,
				role("nodeclient", "/nodeclient"), role("other", ""), binding("auto", "nodeclient", "nodes"), binding("different", "other", "nodes"))
			woken := bubble.Woken(t, client, starting(client, false), func(ctx context.Context) error { return test.change(ctx, client) })
			assert.Equal(t, test.want, woken)
		})
	}
}

func TestAnApprovalThatIsNeverShownIsAskedForSeldom(t *testing.T) {
	t.Parallel()
	client := fake.NewSimpleClientset(csr())
	bubble.Deaf(client, "certificatesigningrequests")
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		review.Status.Allowed = true
		return true, review, nil
	})
	sent := func() int { return len(client.Actions()) }
	assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, true), sent), bubble.Most)
}
