package signer

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/latecache"
)

func init() {
	controller.ReallyCrash.Store(true) // or what panics would be tried again
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

const (
	kubeletClient  = certificatesv1.KubeAPIServerClientKubeletSignerName
	kubeletServing = certificatesv1.KubeletServingSignerName
	apiClient      = certificatesv1.KubeAPIServerClientSignerName
	legacy         = "kubernetes.io/legacy-unknown"
)

// midnight is when each bubble begins.
var midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

// newCertificate returns the certificate of an authority with that key, valid from
// ten years before midnight on.
func newCertificate(t *testing.T, name string, key crypto.Signer, until time.Time) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: midnight.AddDate(-10, 0, 0), NotAfter: until,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return certificate
}

func certificatesPEM(t *testing.T, certificates ...*x509.Certificate) []byte {
	t.Helper()
	content, err := cert.EncodeCertificates(certificates...)
	require.NoError(t, err)
	return content
}

func keyPEM(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	content, err := keyutil.MarshalPrivateKeyToPEM(key)
	require.NoError(t, err)
	return content
}

// replace puts a file in the place of another, as the kubelet and most tools do it:
// there is always a whole file of that name.
func replace(t *testing.T, path string, content []byte) {
	t.Helper()
	next := path + ".next"
	require.NoError(t, os.WriteFile(next, content, 0o600))
	require.NoError(t, os.Rename(next, path))
}

// pair is where the files of an authority are.
type pair struct{ certFile, keyFile string }

func newPair(t *testing.T, certificates, key []byte) pair {
	t.Helper()
	dir := t.TempDir()
	p := pair{filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")}
	replace(t, p.certFile, certificates)
	replace(t, p.keyFile, key)
	return p
}

// newFiles returns the files of an authority that is valid until then. It is not to
// be called in a bubble, which its queue would outlive.
func newFiles(t *testing.T, name string, until time.Time) *AuthorityFiles {
	t.Helper()
	key := newKey(t)
	p := newPair(t, certificatesPEM(t, newCertificate(t, name, key, until)), keyPEM(t, key))
	files, err := NewAuthorityFiles(p.certFile, p.keyFile)
	require.NoError(t, err)
	return files
}

// forAll has all signers use the same files.
func forAll(files *AuthorityFiles) Signers {
	return Signers{kubeletClient: files, kubeletServing: files, apiClient: files, legacy: files}
}

// node is what a kubelet asks for.
func node() *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}}
}

// signed returns a request in PEM, signed with a key of its own.
func signed(t *testing.T, template *x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, newKey(t))
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// asks is an approved request by which a kubelet asks for a client certificate.
func asks(t *testing.T, name string, edits ...func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: kubeletClient,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			Request:    signed(t, node()),
		},
	}
	is(certificatesv1.CertificateApproved, corev1.ConditionTrue)(csr)
	for _, edit := range edits {
		edit(csr)
	}
	return csr
}

// of has another signer asked, for these usages.
func of(signer string, usages ...certificatesv1.KeyUsage) func(*certificatesv1.CertificateSigningRequest) {
	return func(csr *certificatesv1.CertificateSigningRequest) {
		csr.Spec.SignerName, csr.Spec.Usages = signer, usages
	}
}

// asking has something else asked for.
func asking(request []byte) func(*certificatesv1.CertificateSigningRequest) {
	return func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.Request = request }
}

// is gives a request a condition.
func is(kind certificatesv1.RequestConditionType, status corev1.ConditionStatus) func(*certificatesv1.CertificateSigningRequest) {
	return func(csr *certificatesv1.CertificateSigningRequest) {
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: status})
	}
}

func unapproved(csr *certificatesv1.CertificateSigningRequest) { csr.Status.Conditions = nil }

func expiring(seconds int32) func(*certificatesv1.CertificateSigningRequest) {
	return func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.ExpirationSeconds = &seconds }
}

// world is an API server with requests, and loops that work on them, each with a
// cache that is as late as a test likes. All of it is in a bubble.
type world struct {
	t        *testing.T
	signers  Signers
	requests *latecache.Store[*certificatesv1.CertificateSigningRequest]
	loops    []*running

	mu sync.Mutex // of what requests use
	// story is what was asked for and what came of it.
	story []string
	// refuse is what an answer to a request is refused with, unless it is nil.
	refuse func(name string) error
	// lost has one that is refused be carried out all the same.
	lost bool
	// given are the certificates that somebody may have read, by UID.
	given map[string][]string
}

// running is one manager's loop.
type running struct {
	*Controller
	cache *latecache.Informer[*certificatesv1.CertificateSigningRequest]
	stop  func()
}

// play has a loop of these signers work while body happens. The longest lifetime is a
// day.
func play(t *testing.T, signers Signers, body func(w *world), csrs ...*certificatesv1.CertificateSigningRequest) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, signers: signers, requests: latecache.NewStore[*certificatesv1.CertificateSigningRequest](certificatesv1.Resource("certificatesigningrequests")),
			refuse: func(string) error { return nil }, given: map[string][]string{},
		}
		for _, csr := range csrs {
			w.comes(csr)
		}
		w.mu.Lock() // so that no request comes before body allows it
		w.start(signers)
		body(w)
		w.mu.Unlock()
		for _, loop := range w.loops {
			loop.stop()
		}
	})
}

// start starts one more manager, whose cache has just been filled.
func (w *world) start(signers Signers) {
	client, r := &fake.Clientset{}, &running{cache: latecache.NewInformer(w.requests)}
	client.AddReactor("*", "*", w.answer)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim()))
	factory.InformerFor(&certificatesv1.CertificateSigningRequest{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return r.cache })
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	r.Controller = New(ctx, client, factory.Certificates().V1().CertificateSigningRequests(), signers, 24*time.Hour)
	ended := make(chan struct{})
	// Not Run, which also watches files: what waits for the kernel keeps time from passing in a bubble.
	go func() { defer close(ended); r.loop.Run(ctx, 2, r.synced) }()
	r.stop = func() { cancel(); <-ended }
	w.loops = append(w.loops, r)
}

// rest lets the loops work while time passes. All else that a test does it does with
// the lock held, so that no request comes in between.
func (w *world) rest(d time.Duration) {
	w.mu.Unlock()
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
}

// show has the caches show all that there is.
func (w *world) show() {
	for _, loop := range w.loops {
		loop.cache.CatchUp()
	}
	w.rest(0)
}

func (w *world) comes(csr *certificatesv1.CertificateSigningRequest) {
	_, err := w.requests.Create(csr)
	require.NoError(w.t, err)
}

func (w *world) change(name string, edit func(*certificatesv1.CertificateSigningRequest)) {
	csr := w.get(name)
	edit(csr)
	_, err := w.requests.Update(csr)
	require.NoError(w.t, err)
}

func (w *world) get(name string) *certificatesv1.CertificateSigningRequest {
	csr, err := w.requests.Get(name)
	require.NoError(w.t, err)
	return csr
}

// told is what has happened so far.
func (w *world) told() string { return cmp.Or(strings.Join(w.story, "; "), "nothing") }

// answer is the API server: of an account that may update the status of requests and
// nothing else.
func (w *world) answer(action clienttesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if action.GetVerb() != "update" || action.GetSubresource() != "status" {
		panic("it may not " + action.GetVerb() + " " + action.GetResource().Resource + " " + action.GetSubresource())
	}
	csr := action.(clienttesting.UpdateAction).GetObject().(*certificatesv1.CertificateSigningRequest)
	what := fmt.Sprintf("%s gets %s", csr.Name, outcome(csr))
	refusal := w.refuse(csr.Name)
	if refusal != nil && !w.lost {
		w.story = append(w.story, what+" (refused)")
		return true, nil, refusal
	}
	updated, err := w.update(csr)
	switch {
	case err != nil:
		what += fmt.Sprintf(" (%s)", apierrors.ReasonForError(err))
	case len(updated.Status.Certificate) > 0:
		w.given[string(updated.UID)] = append(w.given[string(updated.UID)], string(updated.Status.Certificate))
	}
	w.story = append(w.story, what)
	return true, updated, cmp.Or(refusal, err)
}

// update does what the API server does with a status, in the order in which it does
// that: another version is a conflict, and what was said of a certificate stays said.
func (w *world) update(csr *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
	there, err := w.requests.Get(csr.Name)
	if err != nil {
		return nil, err
	}
	if csr.ResourceVersion == "" {
		csr.ResourceVersion = there.ResourceVersion // it lets one update whatever there is
	}
	if csr.UID != there.UID {
		return nil, apierrors.NewConflict(certificatesv1.Resource("certificatesigningrequests"), csr.Name,
			fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", csr.UID, there.UID))
	}
	if csr.ResourceVersion == there.ResourceVersion && len(there.Status.Certificate) > 0 {
		forbidden := field.Forbidden(field.NewPath("status", "certificate"), "updates may not modify existing certificate content")
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}, csr.Name, field.ErrorList{forbidden})
	}
	return w.requests.Update(csr)
}

// outcome says what has become of a request.
func outcome(csr *certificatesv1.CertificateSigningRequest) string {
	for _, c := range csr.Status.Conditions {
		if c.Type == certificatesv1.CertificateFailed {
			return fmt.Sprintf("%s=%s (%s: %s)", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	if len(csr.Status.Certificate) > 0 {
		return "a certificate"
	}
	return "nothing"
}
