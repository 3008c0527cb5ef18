package certificates

import (
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// Has tells whether a request has a condition of the given type. Of the types
// Approved, Denied and Failed that is the whole answer: they can only be True, and
// stay once they are there (see [certificatesv1.CertificateSigningRequestCondition]).
// One that is old enough may be both approved and denied.
func Has(csr *certificatesv1.CertificateSigningRequest, condition certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == condition
	})
}

// IsApproved tells whether a request may be signed: it was approved, and not denied.
func IsApproved(csr *certificatesv1.CertificateSigningRequest) bool {
	return Has(csr, certificatesv1.CertificateApproved) && !Has(csr, certificatesv1.CertificateDenied)
}
