package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	certutil "k8s.io/client-go/util/cert"
)

// asks is the parsed request of the kubelet of node-1, changed by edits.
func asks(edits ...func(*x509.CertificateRequest)) *x509.CertificateRequest {
	request := &x509.CertificateRequest{Subject: pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:node-1"}}
	for _, edit := range edits {
		edit(request)
	}
	return request
}

func of(organizations ...string) func(*x509.CertificateRequest) {
	return func(request *x509.CertificateRequest) { request.Subject.Organization = organizations }
}

func named(name string) func(*x509.CertificateRequest) {
	return func(request *x509.CertificateRequest) { request.Subject.CommonName = name }
}

func withDNS(request *x509.CertificateRequest)   { request.DNSNames = []string{"node-1"} }
func withIP(request *x509.CertificateRequest)    { request.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} }
func withEmail(request *x509.CertificateRequest) { request.EmailAddresses = []string{"root@node-1"} }
func withURI(request *x509.CertificateRequest)   { request.URIs = []*url.URL{{Scheme: "spiffe"}} }

// said is what an error says, or "fine".
func said(err error) string {
	if err == nil {
		return "fine"
	}
	return err.Error()
}

type usages = []certificatesv1.KeyUsage

const (
	signs     = certificatesv1.UsageDigitalSignature
	enciphers = certificatesv1.UsageKeyEncipherment
	isClient  = certificatesv1.UsageClientAuth
	serves    = certificatesv1.UsageServerAuth
)

const (
	notOfNodes = "subject organization is not system:nodes"
	notANode   = "subject common name does not begin with system:node:"
)

func TestAKubeletMayBeAClientOfTheAPIServerAndNothingElse(t *testing.T) {
	t.Parallel()
	const wrongUsages = "usages did not match [client auth digital signature key encipherment]"
	for _, test := range []struct {
		behaviour string
		request   *x509.CertificateRequest
		usages    usages
		want      string
	}{
		{"a kubelet with an RSA key asks for three usages", asks(), usages{signs, enciphers, isClient}, "fine"},
		{"a kubelet with another key asks for two", asks(), usages{signs, isClient}, "fine"},
		{"the order of usages does not matter", asks(), usages{isClient, enciphers, signs}, "fine"},
		{"a usage that is named twice is one usage", asks(), usages{signs, isClient, signs}, "fine"},
		{"a certificate for a person is none for a node", asks(of(), named("jane")), usages{signs, isClient}, notOfNodes},
		{"a node is no administrator", asks(of("system:masters")), usages{signs, isClient}, notOfNodes},
		{"a node is in no other group beside that of nodes", asks(of("system:nodes", "system:masters")), usages{signs, isClient}, notOfNodes},
		{"a node is not in its group twice", asks(of("system:nodes", "system:nodes")), usages{signs, isClient}, notOfNodes},
		{"capital letters make another group", asks(of("System:nodes")), usages{signs, isClient}, notOfNodes},
		{"a member of the group that is no node is refused", asks(named("system:kube-scheduler")), usages{signs, isClient}, notANode},
		{"a name that only holds that of a node is refused", asks(named("jane system:node:node-1")), usages{signs, isClient}, notANode},
		{"no name is no node", asks(named("")), usages{signs, isClient}, notANode},
		{"a client has no name in the DNS", asks(withDNS), usages{signs, isClient}, "DNS subjectAltNames are not allowed"},
		{"a client has no address", asks(withIP), usages{signs, isClient}, "IP subjectAltNames are not allowed"},
		{"a client has no e-mail address", asks(withEmail), usages{signs, isClient}, "Email subjectAltNames are not allowed"},
		{"a client has no URI", asks(withURI), usages{signs, isClient}, "URI subjectAltNames are not allowed"},
		{"what may also serve is refused", asks(), usages{signs, enciphers, isClient, serves}, wrongUsages},
		{"what may sign other certificates is refused", asks(), usages{signs, isClient, certificatesv1.UsageCertSign}, wrongUsages},
		{"what may be used for anything is refused", asks(), usages{certificatesv1.UsageAny}, wrongUsages},
		{"what cannot sign is refused", asks(), usages{enciphers, isClient}, wrongUsages},
		{"what authenticates nobody is refused", asks(), usages{signs, enciphers}, wrongUsages},
		{"no usage is not any usage", asks(), nil, wrongUsages},
		{"of several mistakes the group is told first", asks(of(), withDNS, named("")), nil, notOfNodes},
		{"then the alternative names", asks(withDNS, named("")), nil, "DNS subjectAltNames are not allowed"},
		{"then the name", asks(named("")), nil, notANode},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, said(ValidateKubeletClient(test.request, test.usages)))
		})
	}
}

func TestAKubeletMayServeAtItsAddressesAndNothingElse(t *testing.T) {
	t.Parallel()
	const wrongUsages = "usages did not match [digital signature key encipherment server auth]"
	for _, test := range []struct {
		behaviour string
		request   *x509.CertificateRequest
		usages    usages
		want      string
	}{
		{"a kubelet serves at an IP", asks(withIP), usages{signs, enciphers, serves}, "fine"},
		{"a kubelet serves at a name", asks(withDNS), usages{signs, serves}, "fine"},
		{"a kubelet serves at both", asks(withDNS, withIP), usages{signs, serves}, "fine"},
		{"it has to serve somewhere", asks(), usages{signs, serves}, "DNS or IP subjectAltName is required"},
		{"it does not serve at a URI", asks(withIP, withURI), usages{signs, serves}, "URI subjectAltNames are not allowed"},
		{"it does not serve at an e-mail address", asks(withIP, withEmail), usages{signs, serves}, "Email subjectAltNames are not allowed"},
		{"what is no node does not serve as one", asks(withIP, named("jane")), usages{signs, serves}, notANode},
		{"what is not of the nodes does not, either", asks(withIP, of("system:masters")), usages{signs, serves}, notOfNodes},
		{"what serves is no client", asks(withIP), usages{signs, isClient}, wrongUsages},
		{"what serves is not a client as well", asks(withIP), usages{signs, serves, isClient}, wrongUsages},
		{"of several mistakes the usages are told before the name", asks(withIP, named("jane")), nil, wrongUsages},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, said(ValidateKubeletServing(test.request, test.usages)))
		})
	}
}

func TestWhoAsksForItselfHasTheNameThatItAsksFor(t *testing.T) {
	t.Parallel()
	for behaviour, test := range map[string]struct {
		user string
		want bool
	}{
		"a node that renews its certificate asks for itself": {"system:node:node-1", true},
		"a node that asks for another one does not":          {"system:node:node-2", false},
		"a bootstrap token does not":                         {"system:bootstrap:abcdef", false},
		"capital letters make another user":                  {"system:node:Node-1", false},
		"nobody does not":                                    {"", false},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, IsSelf(test.user, asks()), "%q asks for a certificate of system:node:node-1", test.user)
		})
	}
}

// signed is a request in PEM.
func signed(t *testing.T, template *x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	text, err := certutil.MakeCSRFromTemplate(key, template)
	require.NoError(t, err)
	return text
}

func TestARequestIsWhatItsParsedFieldsSay(t *testing.T) {
	t.Parallel()
	t.Run("what a kubelet sends is recognised", func(t *testing.T) {
		t.Parallel()
		request, err := ParseRequest(signed(t, asks(withDNS, withIP)))
		require.NoError(t, err)
		assert.NoError(t, ValidateKubeletServing(request, usages{signs, serves}))
	})
	t.Run("text before and after the request does not count", func(t *testing.T) {
		t.Parallel()
		both := append([]byte("mine\n"), append(signed(t, asks()), signed(t, asks(of("system:masters")))...)...)
		request, err := ParseRequest(both)
		require.NoError(t, err)
		assert.NoError(t, ValidateKubeletClient(request, usages{signs, isClient}))
	})
	t.Run("of two common names the last one counts", func(t *testing.T) {
		t.Parallel()
		name := asn1.ObjectIdentifier{2, 5, 4, 3}
		request, err := ParseRequest(signed(t, asks(func(request *x509.CertificateRequest) {
			request.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: name, Value: "system:node:node-1"}, {Type: name, Value: "jane"}}
		})))
		require.NoError(t, err)
		assert.Equal(t, notANode, said(ValidateKubeletClient(request, usages{signs, isClient})))
	})
	for behaviour, text := range map[string]string{
		"what is no PEM is refused":           "system:nodes",
		"nothing is refused":                  "",
		"what is no request is refused":       "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"a request that is none is refused":   "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
		"an empty request is refused":         "-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n",
		"a request of another day is refused": "-----BEGIN NEW CERTIFICATE REQUEST-----\nAAAA\n-----END NEW CERTIFICATE REQUEST-----\n",
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			_, err := ParseRequest([]byte(text))
			assert.Error(t, err, text)
		})
	}
}

func TestAConditionIsThereOrNot(t *testing.T) {
	t.Parallel()
	csr := &certificatesv1.CertificateSigningRequest{}
	assert.False(t, Has(csr, certificatesv1.CertificateApproved), "a request without conditions")
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: "Seen"}, {Type: certificatesv1.CertificateDenied}}
	assert.True(t, Has(csr, certificatesv1.CertificateDenied))
	assert.False(t, Has(csr, certificatesv1.CertificateApproved))
}
