package cleaner

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certificatesinformers "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// For so long a CertificateSigningRequest stays after its last word, and for so long
// one that waits for the next
// (https://k8s.io/docs/reference/access-authn-authz/certificate-signing-requests).
const (
	answeredStays = time.Hour
	waitingStays  = 24 * time.Hour
)

// NewCSRCleanerController returns a controller that deletes CertificateSigningRequests:
// an hour after they were denied, or failed, or were approved and have their certificate,
// and when that has expired; 24 hours after they were created, or approved, and have no
// answer. It reads the informer, which the caller starts, and deletes through client.
func NewCSRCleanerController(
	client kubernetes.Interface, csrInformer certificatesinformers.CertificateSigningRequestInformer,
) *Controller[*certificatesv1.CertificateSigningRequest] {
	cached, requests := csrInformer.Lister(), client.CertificatesV1().CertificateSigningRequests()
	c := &Controller[*certificatesv1.CertificateSigningRequest]{
		cached: func(key cache.ObjectName) (*certificatesv1.CertificateSigningRequest, error) {
			return cached.Get(key.Name)
		},
		endOf: endOfCSR,
		remove: func(ctx context.Context, key cache.ObjectName, options metav1.DeleteOptions) error {
			return requests.Delete(ctx, key.Name, options)
		},
	}
	return c.watch(csrInformer.Informer(), "certificatesigningrequest-cleaner-controller", "csr_cleaner")
}

// endOfCSR returns the first of the moments at which a request has had its time. A time
// that nobody has written down is none. A request that has conditions, and neither was
// approved nor denied nor has failed, stays: some program has an opinion of its own
// about it.
func endOfCSR(csr *certificatesv1.CertificateSigningRequest) (end, bool) {
	var ends []end
	after := func(since time.Time, stays time.Duration, why string) {
		if !since.IsZero() {
			ends = append(ends, end{since.Add(stays), why})
		}
	}
	if len(csr.Status.Conditions) == 0 {
		after(csr.CreationTimestamp.Time, waitingStays, "nobody has answered it for more than a day")
	}
	for _, c := range csr.Status.Conditions {
		switch {
		case c.Type == certificatesv1.CertificateDenied:
			after(c.LastUpdateTime.Time, answeredStays, "it was denied more than an hour ago")
		case c.Type == certificatesv1.CertificateFailed:
			after(c.LastUpdateTime.Time, answeredStays, "it has failed more than an hour ago")
		case c.Type != certificatesv1.CertificateApproved: // says nothing of its end
		case len(csr.Status.Certificate) == 0:
			after(c.LastUpdateTime.Time, waitingStays, "it was approved more than a day ago, and nobody has signed it")
		default:
			from, until := validityOf(csr.Status.Certificate)
			last := c.LastUpdateTime.Time
			if !last.IsZero() && from.After(last) { // it was signed late
				last = from
			}
			after(last, answeredStays, "it has had its certificate for more than an hour")
			after(until, 0, "its certificate has expired")
		}
	}
	if len(ends) == 0 {
		return end{}, false
	}
	return slices.MinFunc(ends, func(a, b end) int { return a.at.Compare(b.at) }), true
}

// validityOf returns from when until when the first of the certificates is valid, which is
// the one that was asked for. That a request was signed late, hours after it was approved,
// shows in the first of these times alone, and that is the signer's, and not of whoever asks.
// Of what cannot be read they are zero: old versions of the API let signers write anything
// there.
func validityOf(certificate []byte) (from, until time.Time) {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return from, until
	}
	certificates, err := x509.ParseCertificates(block.Bytes)
	if err != nil || len(certificates) == 0 {
		return from, until
	}
	return certificates[0].NotBefore, certificates[0].NotAfter
}
