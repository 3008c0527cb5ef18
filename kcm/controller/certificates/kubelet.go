// Package certificates says what a request for a certificate asks for, and what
// has become of it: what the loops have in common that answer such requests, of
// which one approves and others sign. It sends nothing and remembers nothing.
//
// What it says of a request is true of the parsed one: of the organizations, the
// last common name and the alternative names that [x509.ParseCertificateRequest]
// finds. A request may hold more, for example a user's UID in its subject, other
// kinds of names, or the wish to be a CA. So whoever signs must build the
// certificate from the parsed fields, and must copy neither the raw subject nor
// the extensions.
package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	certutil "k8s.io/client-go/util/cert"
)

// A kubelet is a user, and a member of one group. The Node authorizer goes by
// both (https://k8s.io/docs/reference/access-authn-authz/node).
const (
	nodesGroup     = "system:nodes"
	nodeUserPrefix = "system:node:"
)

// ParseRequest decodes what is to be signed, as spec.request has it: a PKCS #10
// request in PEM. What stands around the first block does not count. That the
// signature is right the API server has checked before it stored the request; whoever
// signs checks it again.
func ParseRequest(text []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != certutil.CertificateRequestBlockType {
		return nil, fmt.Errorf("the first PEM block is no %s", certutil.CertificateRequestBlockType)
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// ValidateKubeletClient returns nil if a kubelet needs what is asked for to be a
// client of the API server: a certificate for one node, to which no alternative
// name gives a second meaning, and that is good for nothing but client
// authentication. Otherwise the error says what is wrong, in the words of
// kube-controller-manager, since signers write them into a condition. Of several
// mistakes it tells the first in this order: organizations, alternative names (DNS,
// Email, IP, URI), common name, usages. These are the rules of the signer
// kubernetes.io/kube-apiserver-client-kubelet
// (https://k8s.io/docs/reference/access-authn-authz/certificate-signing-requests).
//
// Whether who asks may have the certificate is another question: whoever may
// create requests may ask for that of any node.
func ValidateKubeletClient(request *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !isOfNodesAlone(request):
		return errNotOfNodes
	case len(request.DNSNames) > 0:
		return notAllowed("DNS")
	case len(request.EmailAddresses) > 0:
		return notAllowed("Email")
	case len(request.IPAddresses) > 0:
		return notAllowed("IP")
	case len(request.URIs) > 0:
		return notAllowed("URI")
	case !strings.HasPrefix(request.Subject.CommonName, nodeUserPrefix):
		return errNotANode
	}
	return validateUsages(usages, certificatesv1.UsageClientAuth)
}

// ValidateKubeletServing returns nil if a kubelet needs what is asked for to
// serve: a certificate for one node that names at least one address, as a name in
// the DNS or an IP, and that is good for nothing but server authentication.
// Otherwise the error says what is wrong, as with [ValidateKubeletClient]. These are
// the rules of the signer kubernetes.io/kubelet-serving.
//
// Whether the addresses are the node's is not asked. That is why nobody approves
// such requests unseen (https://github.com/kubernetes/kubernetes/issues/73356).
func ValidateKubeletServing(request *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !isOfNodesAlone(request):
		return errNotOfNodes
	case len(request.DNSNames) == 0 && len(request.IPAddresses) == 0:
		return errors.New("DNS or IP subjectAltName is required")
	case len(request.EmailAddresses) > 0:
		return notAllowed("Email")
	case len(request.URIs) > 0:
		return notAllowed("URI")
	}
	if err := validateUsages(usages, certificatesv1.UsageServerAuth); err != nil {
		return err
	}
	if !strings.HasPrefix(request.Subject.CommonName, nodeUserPrefix) {
		return errNotANode
	}
	return nil
}

// IsSelf tells whether a user asks for a certificate by which it will be the user
// that it is already, as a kubelet does that renews its own.
func IsSelf(username string, request *x509.CertificateRequest) bool {
	return username == request.Subject.CommonName
}

var (
	errNotOfNodes = errors.New("subject organization is not system:nodes")
	//lint:ignore ST1005 This is what kube-controller-manager says.
	errNotANode = errors.New("subject common name does not begin with system:node:")
)

// isOfNodesAlone tells whether the organizations of the subject are that of the
// nodes, once, and nothing else.
func isOfNodesAlone(request *x509.CertificateRequest) bool {
	return slices.Equal(request.Subject.Organization, []string{nodesGroup})
}

func notAllowed(kind string) error {
	return fmt.Errorf("%s subjectAltNames are not allowed", kind)
}

// validateUsages returns an error unless a key is to sign, to authenticate, and
// for nothing else. It may also encipher other keys, as an RSA key does in a
// handshake of TLS before 1.3.
func validateUsages(usages []certificatesv1.KeyUsage, authentication certificatesv1.KeyUsage) error {
	most := sets.New(certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, authentication)
	if !sets.New(usages...).Insert(certificatesv1.UsageKeyEncipherment).Equal(most) {
		return fmt.Errorf("usages did not match %v", sets.List(most))
	}
	return nil
}
