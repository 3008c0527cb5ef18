package signer

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"github.com/kcm-book/kcm-book/kcm/controller/certificates"
)

// plan is how a request is to be answered, if at all: with a certificate or with
// why there will be none.
type plan struct {
	// certificate is what is to be signed, as [Requested] returns it.
	certificate *x509.Certificate
	refusal     string
}

// rules are what each signer asks of a request beside its approval. The error is
// what the condition says. A signer without a rule signs nothing.
var rules = map[string]func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error{
	certificatesv1.KubeAPIServerClientSignerName:        validateClient,
	certificatesv1.KubeAPIServerClientKubeletSignerName: certificates.ValidateKubeletClient,
	certificatesv1.KubeletServingSignerName:             certificates.ValidateKubeletServing,
	certificatesv1beta1.LegacyUnknownSignerName:         validateNothing,
}

// decide returns how a request is to be answered. An error means that this program
// cannot answer it: what is asked for does not change, and may be asked for anew.
func decide(csr *certificatesv1.CertificateSigningRequest) (plan, error) {
	validate := rules[csr.Spec.SignerName]
	if validate == nil || !isWaiting(csr) {
		return plan{}, nil
	}
	request, err := certificates.ParseRequest(csr.Spec.Request)
	if err != nil {
		return plan{}, fmt.Errorf("read spec.request: %w", err)
	}
	if err := validate(request, csr.Spec.Usages); err != nil {
		return plan{refusal: err.Error()}, nil
	}
	certificate, err := Requested(request, csr.Spec.Usages)
	return plan{certificate: certificate}, err
}

// isWaiting tells whether a request is approved and not answered.
func isWaiting(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Certificate) == 0 && certificates.IsApproved(csr) &&
		!certificates.Has(csr, certificatesv1.CertificateFailed)
}

// validateClient is the rule for clients of the API server: a certificate for
// nothing but that. Whose name is in it was the approver's to judge.
func validateClient(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	for _, usage := range usages {
		switch usage {
		case certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment:
		default:
			return fmt.Errorf("invalid usage for client certificate: %s", usage)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return errors.New("missing required usage for client certificate: " + string(certificatesv1.UsageClientAuth))
	}
	return nil
}

// validateNothing is the rule for requests from before there were signers. The API
// server takes no new ones.
func validateNothing(*x509.CertificateRequest, []certificatesv1.KeyUsage) error { return nil }
