package approver

import (
	"crypto/x509"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inWords says what the API server is to be asked.
func inWords(reviews []review) string {
	if len(reviews) == 0 {
		return "nothing"
	}
	var all []string
	for _, r := range reviews {
		all = append(all, "may "+r.question.User+" "+r.question.ResourceAttributes.Subresource)
	}
	return strings.Join(all, ", or else ")
}

func TestOnlyWhatAKubeletNeedsAsAClientIsAskedAbout(t *testing.T) {
	t.Parallel()
	const asked = "may token nodeclient"
	usages := func(usages ...certificatesv1.KeyUsage) edit {
		return func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.Usages = usages }
	}
	signer := func(name string) edit {
		return func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.SignerName = name }
	}
	for _, test := range []struct {
		behaviour string
		seen      *certificatesv1.CertificateSigningRequest
		want      string
	}{
		{"who sets up a node needs the right to any node's certificate", csr(), asked},
		{"a node that renews its own may do with less", csr(renewal), "may system:node:node-1 selfnodeclient, or else may system:node:node-1 nodeclient"},
		{"a node that asks for another one's certificate needs the right to any", csr(byNode("node-2")), "may system:node:node-2 nodeclient"},
		{"an administrator has no right by name", csr(by("admin")), "may admin nodeclient"},
		{"a condition that says something else is no answer", csr(with("Seen")), asked},
		{"what is approved is left alone", csr(with(certificatesv1.CertificateApproved)), "nothing"},
		{"what a person has denied stays denied", csr(with(certificatesv1.CertificateDenied)), "nothing"},
		{"what a signer has given up is left alone", csr(with(certificatesv1.CertificateFailed)), "nothing"},
		{"what has its certificate is left alone", csr(func(csr *certificatesv1.CertificateSigningRequest) { csr.Status.Certificate = []byte("issued") }), "nothing"},
		{"what is being deleted is left alone", csr(func(csr *certificatesv1.CertificateSigningRequest) { csr.DeletionTimestamp = new(metav1.Now()) }), "nothing"},
		{"a client that is no kubelet is left to people", csr(signer("kubernetes.io/kube-apiserver-client")), "nothing"},
		{"what a kubelet is to serve with is left to people", csr(signer("kubernetes.io/kubelet-serving")), "nothing"},
		{"a signer that is somebody else's is left to somebody else", csr(signer("example.com/kubelets")), "nothing"},
		{"a certificate of an administrator is left to people", csr(asking(func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} })), "nothing"},
		{"a certificate with an address is left to people", csr(asking(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} })), "nothing"},
		{"a certificate that can also serve is left to people", csr(usages(certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth)), "nothing"},
		{"who asks without a name asks not for itself", csr(by(""), asking(func(r *x509.CertificateRequest) { r.Subject.CommonName = "" })), "nothing"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			reviews, err := decide(test.seen)
			require.NoError(t, err)
			assert.Equal(t, test.want, inWords(reviews), "what the API server is asked")
		})
	}
	t.Run("what cannot be read is not asked about", func(t *testing.T) {
		t.Parallel()
		reviews, err := decide(csr(func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.Request = []byte("mine") }))
		require.Error(t, err)
		assert.Equal(t, "nothing", inWords(reviews), "what the API server is asked")
	})
}

func TestAQuestionIsAboutAUserAndARight(t *testing.T) {
	t.Parallel()
	t.Run("the API server is asked about who has created the request", func(t *testing.T) {
		t.Parallel()
		reviews, err := decide(csr(renewal, func(csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.UID = "uid-of-node"
			csr.Spec.Extra = map[string]certificatesv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"X509SHA256=1", "2"}}
		}))
		require.NoError(t, err)
		require.Len(t, reviews, 2)
		for i, subresource := range []string{"selfnodeclient", "nodeclient"} {
			assert.Equal(t, authorizationv1.SubjectAccessReviewSpec{
				User:   "system:node:node-1",
				UID:    "uid-of-node",
				Groups: []string{"system:nodes", "system:authenticated"},
				Extra:  map[string]authorizationv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"X509SHA256=1", "2"}},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Group: "certificates.k8s.io", Version: "*", Resource: "certificatesigningrequests", Subresource: subresource, Verb: "create",
				},
			}, reviews[i].question)
		}
	})
}

func TestTwoRequestsAreOneQuestionIfTheSameIsAsked(t *testing.T) {
	t.Parallel()
	groups := func(groups ...string) edit {
		return func(csr *certificatesv1.CertificateSigningRequest) { csr.Spec.Groups = groups }
	}
	extra := func(values ...string) edit {
		return func(csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Extra = map[string]certificatesv1.ExtraValue{"scope": values}
		}
	}
	key := func(t *testing.T, csr *certificatesv1.CertificateSigningRequest) string {
		t.Helper()
		reviews, err := decide(csr)
		require.NoError(t, err)
		return keyOf(reviews)
	}
	for behaviour, test := range map[string]struct {
		one, other *certificatesv1.CertificateSigningRequest
		same       bool
	}{
		"a second request of a user is the same question":         {csr(), csr(called("other")), true},
		"so it is for another node":                               {csr(), csr(asking(func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:node-2" })), true},
		"another user is another question":                        {csr(), csr(by("other")), false},
		"other groups are another question":                       {csr(groups("a", "b")), csr(groups("a b")), false},
		"what else is known of a user makes another question":     {csr(extra("a", "b")), csr(extra("a b")), false},
		"for itself and for another node are different questions": {csr(renewal), csr(renewal, asking(func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:node-2" })), false},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.same, key(t, test.one) == key(t, test.other))
		})
	}
}

func TestAnApprovalAddsACondition(t *testing.T) {
	t.Parallel()
	seen := csr(with("Seen"))
	got := approved(seen, "why")
	assert.Equal(t, []certificatesv1.CertificateSigningRequestCondition{
		{Type: "Seen", Status: "True"},
		{Type: "Approved", Status: "True", Reason: "AutoApproved", Message: "why"},
	}, got.Status.Conditions)
	assert.Equal(t, csr(with("Seen")).Status, seen.Status, "the request that the lister returned, afterwards")
}
