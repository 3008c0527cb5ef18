package signer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes the loop, which has authorities for kubelets. It notes the requests that it is asked to
// look at, and answers them only if it is said to.
func starting(client *fake.Clientset, files *AuthorityFiles, syncs bool, edits ...func(*Controller)) bubble.Start {
	return func(ctx context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		signers := Signers{kubeletClient: files, kubeletServing: files}
		c := New(ctx, client, factory.Certificates().V1().CertificateSigningRequests(), signers, time.Hour)
		for _, edit := range edits {
			edit(c)
		}
		bubble.Note(&c.loop.Sync, note, syncs)
		return func(ctx context.Context) { c.loop.Run(ctx, 1, c.synced) }
	}
}

// What decisions read of other objects:
//
//   - the request: its signer, its conditions, and whether it has a certificate. Any other change of one that waits
//     wakes it as well: there are few, and a sync reads one cache;
//   - the files of the authorities, of which those with certificates wake all that waits.
func TestTheLoopIsWokenByRequestsThatWaitAndByNothingElse(t *testing.T) {
	t.Parallel()
	change := func(name string, edit func(*certificatesv1.CertificateSigningRequest)) func(context.Context, *fake.Clientset) error {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CertificatesV1().CertificateSigningRequests(), name, edit)
		}
	}
	approve := is(certificatesv1.CertificateApproved, corev1.ConditionTrue)
	note := func(csr *certificatesv1.CertificateSigningRequest) { csr.Labels = map[string]string{"note": "x"} }
	for what, test := range map[string]struct {
		change func(context.Context, *fake.Clientset) error
		want   string
	}{
		"one is approved":                 {change("new", approve), "new"},
		"one is denied":                   {change("new", is(certificatesv1.CertificateDenied, corev1.ConditionTrue)), ""},
		"one that waits has a label":      {change("waits", note), "waits"},
		"one that waits is denied":        {change("waits", is(certificatesv1.CertificateDenied, corev1.ConditionTrue)), ""},
		"one that waits has failed":       {change("waits", is(certificatesv1.CertificateFailed, corev1.ConditionTrue)), ""},
		"one that is answered has one":    {change("answered", note), ""},
		"one of another signer has one":   {change("others", note), ""},
		"one of no authority is approved": {change("people", approve), ""},
		"one that waits goes": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CertificatesV1().CertificateSigningRequests().Delete(ctx, "waits", metav1.DeleteOptions{})
		}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			answered := func(csr *certificatesv1.CertificateSigningRequest) { csr.Status.Certificate = []byte("x") }
			client := fake.NewSimpleClientset(asks(t, "new", unapproved), asks(t, "waits"), asks(t, "answered", answered),
				asks(t, "others", of("example.com/mine")), asks(t, "people", unapproved, of(apiClient, clientAuth)))
			start := starting(client, newFiles(t, "ca", inAYear), false)
			assert.Equal(t, test.want, bubble.Woken(t, client, start, func(ctx context.Context) error { return test.change(ctx, client) }))
		})
	}
}

func TestTheFilesOfAnAuthorityWakeAllThatWaits(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	p := newPair(t, certificatesPEM(t, newCertificate(t, "ca", key, inAYear)), keyPEM(t, key))
	files, err := NewAuthorityFiles(p.certFile, p.keyFile)
	assert.NoError(t, err)
	other := certificatesPEM(t, newCertificate(t, "other", key, inAYear))
	client := fake.NewSimpleClientset(asks(t, "a"), asks(t, "b"), asks(t, "c", unapproved), asks(t, "d", of("example.com/mine")))
	assert.Equal(t, "a b", bubble.Woken(t, client, starting(client, files, false), func(ctx context.Context) error {
		replace(t, p.certFile, other)
		return files.certificates.RunOnce(ctx)
	}))
}

func TestAnAnswerThatIsNeverShownIsGivenSeldom(t *testing.T) {
	t.Parallel()
	client := fake.NewSimpleClientset(asks(t, "a"))
	bubble.Deaf(client, "certificatesigningrequests")
	sent := func() int { return len(client.Actions()) }
	assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, newFiles(t, "ca", inAYear), true), sent), bubble.Most)
}

func TestWhoWaitsForTheCacheDoesNotPoll(t *testing.T) {
	t.Parallel()
	client := fake.NewSimpleClientset(asks(t, "a"))
	client.PrependReactor("update", "certificatesigningrequests", func(clienttesting.Action) (bool, runtime.Object, error) {
		conflict := errors.New("it has changed") // and no cache shows how
		return true, nil, apierrors.NewConflict(certificatesv1.Resource("certificatesigningrequests"), "a", conflict)
	})
	var last error
	keep := func(c *Controller) { bubble.Last(&c.loop.Sync, &last) }
	sent := func() int { return len(client.Actions()) }
	assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, newFiles(t, "ca", inAYear), true, keep), sent), bubble.Most)
	assert.ErrorIs(t, last, controller.ErrStaleCache, "it still waits")
}
