// Package certificates stands for k8s.io/kubernetes/pkg/controller/certificates.
package certificates

import upstream "k8s.io/kubernetes/pkg/controller/certificates"

// IsCertificateRequestApproved is upstream's. It is what the suite judges by, and no part of a loop.
var IsCertificateRequestApproved = upstream.IsCertificateRequestApproved
