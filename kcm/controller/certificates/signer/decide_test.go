package signer

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// inWords says how a request is to be answered.
func (p plan) inWords() string {
	switch {
	case p.refusal != "":
		return "refuse: " + p.refusal
	case p.certificate != nil:
		return "sign " + contents(p.certificate)
	}
	return "nothing"
}

// contents says what a certificate is for.
func contents(c *x509.Certificate) string {
	var bits []string
	for bit := x509.KeyUsageDigitalSignature; bit <= x509.KeyUsageDecipherOnly; bit <<= 1 {
		if c.KeyUsage&bit != 0 {
			bits = append(bits, bit.String())
		}
	}
	for _, ext := range c.ExtKeyUsage {
		bits = append(bits, ext.String())
	}
	var names []string
	names = append(names, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	names = append(names, c.EmailAddresses...)
	for _, uri := range c.URIs {
		names = append(names, uri.String())
	}
	return fmt.Sprintf("%q for [%s] as [%s]", c.Subject, strings.Join(bits, " "), strings.Join(names, " "))
}

const (
	signature    = certificatesv1.UsageDigitalSignature
	encipherment = certificatesv1.UsageKeyEncipherment
	clientAuth   = certificatesv1.UsageClientAuth
	serverAuth   = certificatesv1.UsageServerAuth
)

// with returns what a kubelet asks for, and more.
func with(edit func(*x509.CertificateRequest)) *x509.CertificateRequest {
	request := node()
	edit(request)
	return request
}

func TestOnlyWhatWasApprovedAndNotAnsweredIsAnswered(t *testing.T) {
	t.Parallel()
	const signs = `sign "CN=system:node:a,O=system:nodes" for [digitalSignature clientAuth] as []`
	certified := func(csr *certificatesv1.CertificateSigningRequest) { csr.Status.Certificate = []byte("anything") }
	for _, test := range []struct {
		situation string
		csr       *certificatesv1.CertificateSigningRequest
		want      string
	}{
		{"it is approved", asks(t, "a"), signs},
		{"nobody has said anything about it", asks(t, "a", unapproved), "nothing"},
		{"it is denied", asks(t, "a", unapproved, is(certificatesv1.CertificateDenied, corev1.ConditionTrue)), "nothing"},
		{"it is approved and denied", asks(t, "a", is(certificatesv1.CertificateDenied, corev1.ConditionTrue)), "nothing"},
		{"it is approved, and denied without a status", asks(t, "a", is(certificatesv1.CertificateDenied, "")), "nothing"},
		{"it has failed", asks(t, "a", is(certificatesv1.CertificateFailed, corev1.ConditionTrue)), "nothing"},
		{"it has failed, without a status", asks(t, "a", is(certificatesv1.CertificateFailed, "")), "nothing"},
		{"it has another condition", asks(t, "a", is("Seen", corev1.ConditionTrue)), signs},
		{"it has a certificate", asks(t, "a", certified), "nothing"},
		{"it is another program's", asks(t, "a", of("example.com/mine", signature, clientAuth)), "nothing"},
		{"no signer of Kubernetes has this name", asks(t, "a", of("kubernetes.io/kubelet", signature, clientAuth)), "nothing"},
		{"it says no signer", asks(t, "a", of("", signature, clientAuth)), "nothing"},
	} {
		t.Run(test.situation, func(t *testing.T) {
			t.Parallel()
			todo, err := decide(test.csr)
			require.NoError(t, err)
			assert.Equal(t, test.want, todo.inWords())
		})
	}
}

func TestEachSignerHasRules(t *testing.T) {
	t.Parallel()
	ip, uri := net.ParseIP("10.0.0.1"), &url.URL{Scheme: "spiffe", Host: "a"}
	jane := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{"dev", "ops"}}}
	addressed := with(func(r *x509.CertificateRequest) { r.DNSNames, r.IPAddresses = []string{"a"}, []net.IP{ip} })
	const wrongServing = "refuse: usages did not match [digital signature key encipherment server auth]"
	const wrongClient = "refuse: usages did not match [client auth digital signature key encipherment]"
	type usages = []certificatesv1.KeyUsage
	for _, test := range []struct {
		situation, signer string
		request           *x509.CertificateRequest
		usages            usages
		want              string
	}{
		{"a person wants to be a client", apiClient, jane, usages{clientAuth}, `sign "CN=jane,O=dev+O=ops" for [clientAuth] as []`},
		{"with an RSA key", apiClient, jane, usages{clientAuth, signature, encipherment},
			`sign "CN=jane,O=dev+O=ops" for [digitalSignature keyEncipherment clientAuth] as []`},
		{"a person wants to serve as well", apiClient, jane, usages{clientAuth, serverAuth}, "refuse: invalid usage for client certificate: server auth"},
		{"a person wants to sign certificates", apiClient, jane, usages{certificatesv1.UsageCertSign, clientAuth}, "refuse: invalid usage for client certificate: cert sign"},
		{"a client is not to be a client", apiClient, jane, usages{signature}, "refuse: missing required usage for client certificate: client auth"},
		{"a usage of a client is unknown", apiClient, jane, usages{clientAuth, "dance"}, "refuse: invalid usage for client certificate: dance"},
		{"a client has addresses", apiClient, addressed, usages{clientAuth}, `sign "CN=system:node:a,O=system:nodes" for [clientAuth] as [a 10.0.0.1]`},

		{"a kubelet wants to be a client", kubeletClient, node(), usages{clientAuth, signature, encipherment},
			`sign "CN=system:node:a,O=system:nodes" for [digitalSignature keyEncipherment clientAuth] as []`},
		{"its usages are in another order, one of them twice", kubeletClient, node(), usages{signature, clientAuth, signature},
			`sign "CN=system:node:a,O=system:nodes" for [digitalSignature clientAuth] as []`},
		{"a kubelet wants to be a client and to serve", kubeletClient, node(), usages{clientAuth, signature, serverAuth}, wrongClient},
		{"a kubelet wants to be a client that cannot sign", kubeletClient, node(), usages{clientAuth}, wrongClient},
		{"a person wants to be a kubelet", kubeletClient, jane, usages{clientAuth, signature}, "refuse: subject organization is not system:nodes"},
		{"a kubelet is in another group, too", kubeletClient,
			with(func(r *x509.CertificateRequest) {
				r.Subject.Organization = []string{"system:nodes", "system:masters"}
			}),
			usages{clientAuth, signature}, "refuse: subject organization is not system:nodes"},
		{"a kubelet goes by another name", kubeletClient, with(func(r *x509.CertificateRequest) { r.Subject.CommonName = "node:a" }),
			usages{clientAuth, signature}, "refuse: subject common name does not begin with system:node:"},
		{"a client of kubelet's has a DNS name", kubeletClient, with(func(r *x509.CertificateRequest) { r.DNSNames = []string{"a"} }),
			usages{clientAuth, signature}, "refuse: DNS subjectAltNames are not allowed"},
		{"it has an email address", kubeletClient, with(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b.c"} }),
			usages{clientAuth, signature}, "refuse: Email subjectAltNames are not allowed"},
		{"it has an IP address", kubeletClient, with(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{ip} }),
			usages{clientAuth, signature}, "refuse: IP subjectAltNames are not allowed"},
		{"it has a URI", kubeletClient, with(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{uri} }),
			usages{clientAuth, signature}, "refuse: URI subjectAltNames are not allowed"},

		{"a kubelet wants to serve", kubeletServing, addressed, usages{serverAuth, signature},
			`sign "CN=system:node:a,O=system:nodes" for [digitalSignature serverAuth] as [a 10.0.0.1]`},
		{"nobody could reach it", kubeletServing, node(), usages{serverAuth, signature}, "refuse: DNS or IP subjectAltName is required"},
		{"a kubelet wants to serve and to be a client", kubeletServing, addressed, usages{serverAuth, signature, clientAuth}, wrongServing},
		{"a person wants to serve as a kubelet", kubeletServing,
			with(func(r *x509.CertificateRequest) {
				r.Subject.Organization, r.DNSNames = []string{"system:masters"}, []string{"a"}
			}),
			usages{serverAuth, signature}, "refuse: subject organization is not system:nodes"},
		{"two things are wrong", kubeletServing, with(func(r *x509.CertificateRequest) {
			r.Subject.CommonName, r.DNSNames = "a", []string{"a"}
		}), usages{clientAuth}, wrongServing},

		{"an old request asks for anything", legacy, jane, usages{certificatesv1.UsageCertSign, certificatesv1.UsageSMIME, certificatesv1.UsageEmailProtection, certificatesv1.UsageAny},
			`sign "CN=jane,O=dev+O=ops" for [keyCertSign anyExtendedKeyUsage emailProtection] as []`},
	} {
		t.Run(test.situation, func(t *testing.T) {
			t.Parallel()
			todo, err := decide(asks(t, "a", of(test.signer, test.usages...), asking(signed(t, test.request))))
			require.NoError(t, err)
			assert.Equal(t, test.want, todo.inWords(), "%s is asked", test.signer)
		})
	}
}

func TestWhatCannotBeSignedIsAnErrorAndNoAnswer(t *testing.T) {
	t.Parallel()
	forged := signed(t, node())
	block, _ := pem.Decode(forged)
	forged = pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: bytes.Replace(block.Bytes, []byte("system:node:a"), []byte("system:node:b"), 1)})
	for situation, test := range map[string]struct {
		csr  *certificatesv1.CertificateSigningRequest
		want string
	}{
		"there is no request":                       {asks(t, "a", asking(nil)), "read spec.request: "},
		"the request is a certificate":              {asks(t, "a", asking(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}))), "read spec.request: "},
		"the request is no ASN.1":                   {asks(t, "a", asking(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: []byte("x")}))), "read spec.request: "},
		"somebody else's request has a new name":    {asks(t, "a", asking(forged)), "check that the request is signed with its own key: "},
		"a usage is one that nobody knows any more": {asks(t, "a", of(legacy, clientAuth, "dance", "sing")), `unrecognized usage values: ["dance" "sing"]`},
	} {
		t.Run(situation, func(t *testing.T) {
			t.Parallel()
			todo, err := decide(test.csr)
			require.ErrorContains(t, err, test.want)
			assert.Equal(t, "nothing", todo.inWords())
		})
	}
}

func TestOfARequestOnlyNamesAndKeyCount(t *testing.T) {
	t.Parallel()
	constraints, err := asn1.Marshal(struct{ IsCA bool }{true})
	require.NoError(t, err)
	request := with(func(r *x509.CertificateRequest) {
		r.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}, Value: "uid-of-somebody"}}
		r.ExtraExtensions = []pkix.Extension{
			{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: constraints},
			{Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Value: []byte{5, 0}},
		}
	})
	todo, err := decide(asks(t, "a", asking(signed(t, request))))
	require.NoError(t, err)
	authority := authorityUntil(t, midnight.AddDate(1, 0, 0))
	der, err := authority.Sign(todo.certificate, shortest, midnight)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	assert.True(t, certificate.BasicConstraintsValid)
	assert.False(t, certificate.IsCA, "the request has asked to be an authority")
	assert.Len(t, certificate.Subject.Names, 2, "a group and a name: the UID that the request says is left out")
	var extensions []string
	for _, e := range certificate.Extensions {
		extensions = append(extensions, e.Id.String())
	}
	assert.Equal(t, []string{"2.5.29.15", "2.5.29.37", "2.5.29.19", "2.5.29.35"}, extensions,
		"key usage, extended key usage, basic constraints, the authority's key")
}
