package cleaner

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

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
	// asked are the deletions that were asked for, each with its time and with what it
	// has named, and refuse is what the API server says to each.
	asked  []string
	refuse func(name string) error
}

// told runs the two controllers in a cluster while something happens there, and for two
// days after that, and returns which deletions they have asked for, and when.
func told(t *testing.T, happens func(c *cluster)) string {
	t.Helper()
	c := &cluster{t: t, refuse: func(string) error { return nil }}
	synctest.Test(t, func(t *testing.T) {
		c.client = fake.NewSimpleClientset()
		c.client.PrependReactor("delete", "*", c.deletes)
		factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(controller.Trim()))
		kinds := factory.Certificates()
		csrs := NewCSRCleanerController(c.client, kinds.V1().CertificateSigningRequests())
		pcrs := NewPCRCleanerController(c.client, kinds.V1beta1().PodCertificateRequests())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		factory.Start(ctx.Done())
		synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
		go func() {
			defer close(ended)
			var running sync.WaitGroup
			running.Go(func() { csrs.Run(ctx, 1) })
			running.Go(func() { pcrs.Run(ctx, 1) })
			running.Wait()
		}()
		happens(c)
		time.Sleep(48 * time.Hour)
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

func (c *cluster) deletes(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	del := action.(clienttesting.DeleteActionImpl)
	named := "whoever has the name"
	if p := del.DeleteOptions.Preconditions; p != nil && p.UID != nil && p.ResourceVersion != nil {
		named = fmt.Sprintf("%s at version %s", *p.UID, *p.ResourceVersion)
	}
	at := time.Now().UTC().Sub(midnight)
	c.asked = append(c.asked, fmt.Sprintf("%s %s, %s", clock(at), strings.Trim(del.Namespace+"/"+del.Name, "/"), named))
	err := c.refuse(del.Name)
	return err != nil, nil, err
}

// clock writes a time since midnight; 24:00:00 is the next midnight.
func clock(d time.Duration) string {
	d = d.Truncate(time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// answers has the API server refuse deletions from now on.
func (c *cluster) answers(refuse func(name string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = refuse
}

// after waits until so much time has passed since midnight.
func (c *cluster) after(d time.Duration) {
	time.Sleep(time.Until(midnight.Add(d)))
	synctest.Wait()
}

// has puts a request there, in place of one that has its name.
func (c *cluster) has(request *certificatesv1.CertificateSigningRequest) {
	api := c.client.CertificatesV1().CertificateSigningRequests()
	_, err := api.Update(c.t.Context(), request, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = api.Create(c.t.Context(), request, metav1.CreateOptions{})
	}
	assert.NoError(c.t, err)
}

// hasForPod puts a request for a pod there.
func (c *cluster) hasForPod(request *certificatesv1beta1.PodCertificateRequest) {
	_, err := c.client.CertificatesV1beta1().PodCertificateRequests(request.Namespace).Create(c.t.Context(), request, metav1.CreateOptions{})
	assert.NoError(c.t, err)
}

type edit = func(*certificatesv1.CertificateSigningRequest)

// csr is a request of midnight, changed by edits.
func csr(edits ...edit) *certificatesv1.CertificateSigningRequest {
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "node-csr", UID: "uid-1", ResourceVersion: "7", CreationTimestamp: metav1.NewTime(midnight)},
	}
	for _, edit := range edits {
		edit(csr)
	}
	return csr
}

func called(name string) edit {
	return func(csr *certificatesv1.CertificateSigningRequest) { csr.Name = name }
}

func withUID(uid types.UID) edit {
	return func(csr *certificatesv1.CertificateSigningRequest) { csr.UID = uid }
}

// with gives a request a condition that was written so long after midnight.
func with(kind certificatesv1.RequestConditionType, after time.Duration) edit {
	return func(csr *certificatesv1.CertificateSigningRequest) {
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: kind, Status: "True", LastUpdateTime: metav1.NewTime(midnight.Add(after)),
		})
	}
}

func approved(after time.Duration) edit { return with(certificatesv1.CertificateApproved, after) }

// issued gives a request a certificate that expires so long after midnight.
func issued(expires time.Duration) edit {
	return func(csr *certificatesv1.CertificateSigningRequest) {
		csr.Status.Certificate = certificate(midnight.AddDate(-1, 0, 0), midnight.Add(expires))
	}
}

// signed gives a request a certificate that was made so long after midnight and is good for a year.
func signed(after time.Duration) edit {
	return func(csr *certificatesv1.CertificateSigningRequest) {
		csr.Status.Certificate = certificate(midnight.Add(after), midnight.Add(after+year))
	}
}

var privateKey = func() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	utilruntime.Must(err)
	return key
}()

// certificate is one that signs itself, in PEM.
func certificate(from, until time.Time) []byte {
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, privateKey.Public(), privateKey)
	utilruntime.Must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
