package approver

import (
	"encoding/json"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kcm-book/kcm-book/kcm/controller/certificates"
)

// signerName is the only signer whose requests are approved.
const signerName = certificatesv1.KubeAPIServerClientKubeletSignerName

// The two rights to a certificate, as subresources of requests.
const (
	// selfNodeClient is the right of a node to a certificate in its own name.
	selfNodeClient = "selfnodeclient"
	// nodeClient is the right to a certificate in the name of any node.
	nodeClient = "nodeclient"
)

// resource is what requests are called where rights to them are named.
const resource = "certificatesigningrequests"

// review is a question for the API server, and what an approval says when the
// answer is yes.
type review struct {
	question authorizationv1.SubjectAccessReviewSpec
	message  string
}

// decide returns the questions about a request, in their order. If the answer to one
// is yes, the request is to be approved. There is none about a request that has been
// answered, or that asks for anything but what a kubelet needs as a client. The error
// says that what is asked for cannot be parsed.
func decide(csr *certificatesv1.CertificateSigningRequest) ([]review, error) {
	if csr.Spec.SignerName != signerName || isAnswered(csr) {
		return nil, nil
	}
	request, err := certificates.ParseRequest(csr.Spec.Request)
	if err != nil {
		return nil, err
	}
	if certificates.ValidateKubeletClient(request, csr.Spec.Usages) != nil {
		return nil, nil
	}
	reviews := []review{{
		question: mayCreate(csr, nodeClient),
		message:  "Auto approving kubelet client certificate after SubjectAccessReview.",
	}}
	if certificates.IsSelf(csr.Spec.Username, request) {
		reviews = slices.Insert(reviews, 0, review{
			question: mayCreate(csr, selfNodeClient),
			message:  "Auto approving self kubelet client certificate after SubjectAccessReview.",
		})
	}
	return reviews, nil
}

// isAnswered tells whether nothing is left to be decided. A request that a signer has
// failed will not be signed any more, and one that is being deleted has been withdrawn.
func isAnswered(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Certificate) > 0 || csr.DeletionTimestamp != nil ||
		certificates.Has(csr, certificatesv1.CertificateApproved) ||
		certificates.Has(csr, certificatesv1.CertificateDenied) ||
		certificates.Has(csr, certificatesv1.CertificateFailed)
}

// mayCreate asks whether who has created the request may create a subresource of
// requests. The API server has written down who that was, with all that its
// authenticators knew, and lets nobody change it. Each part may be what a right
// depends on.
func mayCreate(csr *certificatesv1.CertificateSigningRequest, subresource string) authorizationv1.SubjectAccessReviewSpec {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range csr.Spec.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User:   csr.Spec.Username,
		UID:    csr.Spec.UID,
		Groups: csr.Spec.Groups,
		Extra:  extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group:       certificatesv1.GroupName,
			Version:     "*",
			Resource:    resource,
			Subresource: subresource,
			Verb:        "create",
		},
	}
}

// keyOf is the same for all requests about which the same is asked: the first
// question says who asks, and which questions follow.
func keyOf(reviews []review) string {
	text, _ := json.Marshal(reviews[0].question) // there is nothing in it that JSON could not say
	return string(text)
}

// approved returns the request with the approval. The API server adds the time.
func approved(csr *certificatesv1.CertificateSigningRequest, message string) *certificatesv1.CertificateSigningRequest {
	csr = csr.DeepCopy()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type:    certificatesv1.CertificateApproved,
		Status:  corev1.ConditionTrue,
		Reason:  "AutoApproved",
		Message: message,
	})
	return csr
}
