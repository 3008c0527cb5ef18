// These tests compare the certificates that kcm issues with those of the original: the same request, the same
// authority and the same moment have to lead to the same bytes, but for the serial number and the signature.
package certificates_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	kcmconfig "k8s.io/kube-controller-manager/config/v1alpha1"
	originalhelpers "k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/kubernetes/pkg/controller/certificates/authority"
	original "k8s.io/kubernetes/pkg/controller/certificates/signer"

	"github.com/kcm-book/kcm-book/kcm/controller/certificates"
	"github.com/kcm-book/kcm-book/kcm/controller/certificates/signer"
)

// now is when all certificates are made. It is no whole second: what is rounded, and how, is compared, too.
var now = time.Date(2026, 3, 1, 12, 30, 15, 987_654_321, time.UTC)

type usages = []certificatesv1.KeyUsage

// every is what the API knows, in the order in which it lists them.
var every = usages{"signing", "digital signature", "content commitment", "key encipherment", "key agreement", "data encipherment",
	"cert sign", "crl sign", "encipher only", "decipher only", "any", "server auth", "client auth", "code signing", "email protection",
	"s/mime", "ipsec end system", "ipsec tunnel", "ipsec user", "timestamping", "ocsp signing", "microsoft sgc", "netscape sgc"}

func must[T any](result T, err error) T {
	if err != nil {
		panic(err)
	}
	return result
}

// keys are of all kinds that a request may have.
var keys = sync.OnceValue(func() map[string]crypto.Signer {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	return map[string]crypto.Signer{
		"RSA 2048": must(rsa.GenerateKey(rand.Reader, 2048)), "RSA 3072": must(rsa.GenerateKey(rand.Reader, 3072)),
		"P-224": must(ecdsa.GenerateKey(elliptic.P224(), rand.Reader)), "P-256": must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)),
		"P-384": must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)), "P-521": must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader)),
		"Ed25519": must(ed, err),
	}
})

// newCA returns an authority that is valid until then.
func newCA(key crypto.Signer, until time.Time) *signer.Authority {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(42), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: now.AddDate(-1, 0, 0), NotAfter: until,
		KeyUsage: x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, DNSNames: []string{"kubernetes"},
		BasicConstraintsValid: true, IsCA: true,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return &signer.Authority{Certificate: must(x509.ParseCertificate(der)), Key: key}
}

func requestOf(template *x509.CertificateRequest, key crypto.Signer) *x509.CertificateRequest {
	return must(x509.ParseCertificateRequest(must(x509.CreateCertificateRequest(rand.Reader, template, key))))
}

// rdns encodes a subject as no library would: an attribute after the other in sets as they are given.
func rdns(sets ...[]pkix.AttributeTypeAndValue) []byte {
	var sequence pkix.RDNSequence
	for _, set := range sets {
		sequence = append(sequence, set)
	}
	return must(asn1.Marshal(sequence))
}

func attribute(value any, oid ...int) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: oid, Value: value}
}

// inT61 is a string in an encoding that nobody uses any more.
func inT61(text string) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassUniversal, Tag: asn1.TagT61String, Bytes: []byte(text)}
}

// requests is what is asked for, from plain to odd.
func requests() map[string]*x509.CertificateRequest {
	node := pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}
	ips := []net.IP{net.IPv4(10, 0, 0, 1), net.ParseIP("fd00::1"), net.ParseIP("::ffff:10.0.0.2")}
	cn, o := []int{2, 5, 4, 3}, []int{2, 5, 4, 10}
	all := map[string]*x509.CertificateRequest{
		"nothing":                 {},
		"a kubelet":               {Subject: node},
		"a kubelet that serves":   {Subject: node, DNSNames: []string{"a", "a.example.com"}, IPAddresses: ips},
		"names without a subject": {DNSNames: []string{"*.example.com"}},
		"names of all kinds": {Subject: node, DNSNames: []string{"a", ""}, IPAddresses: ips, EmailAddresses: []string{"a@example.com"},
			URIs: []*url.URL{must(url.Parse("spiffe://a/b?c=d%20e")), must(url.Parse("urn:x"))}},
		"a person of many groups": {Subject: pkix.Name{CommonName: "jane", Organization: []string{"ops", "dev", "dev", "system:masters"}}},
		"all that a subject has": {Subject: pkix.Name{
			Country: []string{"CH", "AT"}, Organization: []string{"o"}, OrganizationalUnit: []string{"b", "a"}, Locality: []string{"l"},
			Province: []string{"p"}, StreetAddress: []string{"s"}, PostalCode: []string{"1"}, SerialNumber: "7", CommonName: "c"}},
		"a name in other letters":        {Subject: pkix.Name{CommonName: "Zoë Ελένη 李", Organization: []string{"🙂"}}},
		"a name with what is escaped":    {Subject: pkix.Name{CommonName: `a,b+c="d"\#;<>` + " \x00"}},
		"a long name":                    {Subject: pkix.Name{CommonName: strings.Repeat("x", 5000)}},
		"the authority's own name":       {Subject: pkix.Name{CommonName: "kubernetes"}},
		"a UID":                          {Subject: pkix.Name{CommonName: "jane", ExtraNames: []pkix.AttributeTypeAndValue{attribute("1234", 1, 3, 6, 1, 4, 1, 57683, 2)}}},
		"two common names":               {RawSubject: rdns([]pkix.AttributeTypeAndValue{attribute("first", cn...)}, []pkix.AttributeTypeAndValue{attribute("last", cn...)})},
		"attributes in another order":    {RawSubject: rdns([]pkix.AttributeTypeAndValue{attribute("jane", cn...)}, []pkix.AttributeTypeAndValue{attribute("dev", o...)}, []pkix.AttributeTypeAndValue{attribute("ops", o...)})},
		"two attributes in one":          {RawSubject: rdns([]pkix.AttributeTypeAndValue{attribute("jane", cn...), attribute("dev", o...)})},
		"a name in T.61":                 {RawSubject: rdns([]pkix.AttributeTypeAndValue{attribute(inT61("caf\xe9"), cn...)})},
		"a common name that is a number": {RawSubject: rdns([]pkix.AttributeTypeAndValue{attribute(7, cn...)})},
		"domain components":              {RawSubject: rdns([]pkix.AttributeTypeAndValue{attribute("com", 0, 9, 2342, 19200300, 100, 1, 25)}, []pkix.AttributeTypeAndValue{attribute("jane", cn...)})},
		"extensions of an authority": {Subject: node, ExtraExtensions: []pkix.Extension{
			{Id: []int{2, 5, 29, 19}, Critical: true, Value: must(asn1.Marshal(struct{ IsCA bool }{true}))},
			{Id: []int{2, 5, 29, 15}, Critical: true, Value: must(asn1.Marshal(asn1.BitString{Bytes: []byte{6}, BitLength: 7}))},
			{Id: []int{2, 5, 29, 14}, Value: must(asn1.Marshal([]byte("my key")))},
			{Id: []int{2, 5, 29, 35}, Value: must(asn1.Marshal(struct {
				ID []byte `asn1:"tag:0"`
			}{[]byte("my authority")}))}}},
		"extensions that nobody knows": {Subject: node, DNSNames: []string{"a"}, ExtraExtensions: []pkix.Extension{
			{Id: []int{1, 2, 3, 4}, Critical: true, Value: []byte{5, 0}}, {Id: []int{1, 2, 3, 5}, Value: nil}}},
	}
	parsed := map[string]*x509.CertificateRequest{}
	for name, template := range all {
		parsed[name] = requestOf(template, keys()["P-256"])
	}
	for kind, key := range keys() {
		parsed["a key of the kind "+kind] = requestOf(&x509.CertificateRequest{Subject: node}, key)
	}
	parsed["a signature by SHA-1"] = requestOf(&x509.CertificateRequest{Subject: node, SignatureAlgorithm: x509.ECDSAWithSHA1}, keys()["P-256"])
	parsed["a signature by PSS"] = requestOf(&x509.CertificateRequest{Subject: node, SignatureAlgorithm: x509.SHA384WithRSAPSS}, keys()["RSA 2048"])
	forged := bytes.Clone(parsed["a kubelet"].Raw)
	parsed["another's signature"] = must(x509.ParseCertificateRequest(bytes.Replace(forged, []byte("system:node:a"), []byte("system:node:b"), 1)))
	return parsed
}

// compare has both sign the same, and says in what the certificates differ.
func compare(t *testing.T, ca *signer.Authority, request *x509.CertificateRequest, wanted usages, lifetime time.Duration) {
	t.Helper()
	theirs := &authority.CertificateAuthority{Certificate: ca.Certificate, PrivateKey: ca.Key}
	want, wantErr := theirs.Sign(request.Raw, authority.PermissiveSigningPolicy{
		TTL: lifetime, Usages: wanted, Backdate: 5 * time.Minute, Short: 8 * time.Hour, Now: func() time.Time { return now },
	})
	var got []byte
	requested, err := signer.Requested(request, wanted)
	if err == nil {
		got, err = ca.Sign(requested, lifetime, now)
	}
	if wantErr != nil || err != nil {
		assert.Equal(t, wantErr != nil, err != nil, "whether it is refused: the original says %v, and kcm %v", wantErr, err)
		return
	}
	sameParts(t, want, got)
	certificate := must(x509.ParseCertificate(got))
	assert.NoError(t, ca.Certificate.CheckSignature(certificate.SignatureAlgorithm, certificate.RawTBSCertificate, certificate.Signature))
	assert.Positive(t, certificate.SerialNumber.Sign(), "RFC 5280 wants a positive serial number")
	assert.LessOrEqual(t, len(certificate.SerialNumber.Bytes()), 20, "and one of 20 octets at most")
}

// sameParts compares what is signed of two certificates, as bytes and then in words.
func sameParts(t *testing.T, want, got []byte, but ...int) {
	t.Helper()
	theirs, ours := must(x509.ParseCertificate(want)), must(x509.ParseCertificate(got))
	parts := []string{"version", "serial number", "signature algorithm", "issuer", "validity", "subject", "public key", "extensions"}
	wantParts, gotParts := partsOf(theirs), partsOf(ours)
	if !assert.Equal(t, len(wantParts), len(gotParts), "parts of the certificate") {
		return
	}
	skipped := sets.New(but...).Insert(1) // the serial number
	for i := range wantParts {
		if !skipped.Has(i) {
			assert.Equal(t, wantParts[i].FullBytes, gotParts[i].FullBytes, parts[i])
		}
	}
	assert.Equal(t, theirs.Subject.String(), ours.Subject.String())
	assert.Equal(t, theirs.KeyUsage, ours.KeyUsage)
	assert.Equal(t, theirs.ExtKeyUsage, ours.ExtKeyUsage)
	assert.Equal(t, theirs.Extensions, ours.Extensions)
	assert.False(t, ours.IsCA)
	if !skipped.Has(4) {
		assert.Equal(t, theirs.NotBefore, ours.NotBefore)
		assert.Equal(t, theirs.NotAfter, ours.NotAfter)
	}
}

// partsOf returns what is signed of a certificate, part by part.
func partsOf(certificate *x509.Certificate) []asn1.RawValue {
	var parts []asn1.RawValue
	must(asn1.Unmarshal(certificate.RawTBSCertificate, &parts))
	return parts
}

func TestKcmAndTheOriginalSignTheSame(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	all, plain := requests(), usages{"digital signature", "key encipherment", "client auth"}
	for kind, key := range keys() {
		t.Run("every request, by an authority with a key of the kind "+kind, func(t *testing.T) {
			t.Parallel()
			ca := newCA(key, now.AddDate(10, 0, 0))
			for name, request := range all {
				t.Run(name, func(t *testing.T) { compare(t, ca, request, plain, year) })
			}
		})
	}
	t.Run("every usage", func(t *testing.T) {
		t.Parallel()
		ca := newCA(keys()["P-256"], now.AddDate(10, 0, 0))
		backwards := usages{}
		for _, usage := range every {
			backwards = append(usages{usage}, backwards...)
			compare(t, ca, all["a kubelet"], usages{usage}, year)
			compare(t, ca, all["a kubelet"], usages{usage, "server auth", usage}, year)
			compare(t, ca, all["a kubelet"], backwards, year)
		}
		for _, odd := range []usages{nil, {}, {""}, {"dance"}, {"Client Auth"}, {"client auth", "dance", "server auth"}, every} {
			compare(t, ca, all["a kubelet"], odd, year)
		}
	})
	t.Run("every lifetime, of every authority", func(t *testing.T) {
		t.Parallel()
		for _, end := range []time.Duration{-year, -10 * time.Minute, -5 * time.Minute, -5*time.Minute + time.Second, -time.Second, 0, time.Nanosecond,
			time.Second, 3 * time.Minute, time.Hour, 8 * time.Hour, 8*time.Hour - 5*time.Minute, year, 30 * year} {
			ca := newCA(keys()["P-256"], now.Add(end))
			exact := *ca.Certificate
			exact.NotAfter = now.Add(end) // which no file could say
			for _, lifetime := range []time.Duration{-year, -time.Minute, 0, time.Second, 5 * time.Minute, 10 * time.Minute, time.Hour, 8*time.Hour - time.Second,
				8 * time.Hour, 8*time.Hour + time.Second, 24 * time.Hour, year, 200 * year} {
				compare(t, ca, all["a kubelet"], plain, lifetime)
				compare(t, &signer.Authority{Certificate: &exact, Key: ca.Key}, all["a kubelet"], plain, lifetime)
			}
		}
	})
	t.Run("an authority whose certificate does not name its key", func(t *testing.T) {
		t.Parallel()
		ca := newCA(keys()["P-256"], now.AddDate(10, 0, 0))
		ca.Certificate.SubjectKeyId = nil
		for _, request := range all {
			compare(t, ca, request, plain, year)
		}
	})
}

func TestKcmAndTheOriginalRecogniseTheSame(t *testing.T) {
	t.Parallel()
	node := func() *x509.CertificateRequest {
		return &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}}
	}
	all := requests()
	for _, org := range [][]string{nil, {"system:nodes"}, {"system:nodes", "system:nodes"}, {"system:nodes", "dev"}, {"System:nodes"}, {""}} {
		for _, name := range []string{"", "system:node:", "system:node:a", "system:nodes:a", "a"} {
			for has := range 1 << 4 {
				r := node()
				r.Subject.Organization, r.Subject.CommonName = org, name
				if has&1 != 0 {
					r.DNSNames = []string{"a"}
				}
				if has&2 != 0 {
					r.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)}
				}
				if has&4 != 0 {
					r.EmailAddresses = []string{"a@example.com"}
				}
				if has&8 != 0 {
					r.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}}
				}
				all[fmt.Sprintf("group %q, name %q, kinds of other names %b", org, name, has)] = r // what is not parsed serves as well
			}
		}
	}
	kinds := usages{"digital signature", "key encipherment", "client auth", "server auth", "any", "dance"}
	for name, request := range all {
		for has := range 1 << len(kinds) {
			var wanted usages
			theirs := sets.NewString()
			for i, usage := range kinds {
				if has&(1<<i) != 0 {
					wanted = append(wanted, usage, usage)
					theirs.Insert(string(usage))
				}
			}
			client, clientWant := certificates.ValidateKubeletClient(request, wanted), originalhelpers.ValidateKubeletClientCSR(request, theirs)
			serving, servingWant := certificates.ValidateKubeletServing(request, wanted), originalhelpers.ValidateKubeletServingCSR(request, theirs)
			require.Equal(t, reason(clientWant), reason(client), "a client: %s, %v", name, wanted)
			require.Equal(t, reason(servingWant), reason(serving), "one that serves: %s, %v", name, wanted)
		}
	}
	good := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: all["a kubelet"].Raw})
	for name, content := range map[string][]byte{
		"nothing": nil, "text": []byte("x"), "good": good, "with text around it": []byte("a\n" + string(good) + "b"), "twice": append(bytes.Clone(good), good...),
		"a header":     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Headers: map[string]string{"a": "b"}, Bytes: all["a kubelet"].Raw}),
		"another type": pem.EncodeToMemory(&pem.Block{Type: "NEW CERTIFICATE REQUEST", Bytes: all["a kubelet"].Raw}),
		"after a key":  append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY"}), good...),
		"cut":          good[:len(good)/2], "trailing bytes": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: append(bytes.Clone(all["a kubelet"].Raw), 0)}),
	} {
		want, wantErr := originalhelpers.ParseCSR(content)
		got, err := certificates.ParseRequest(content)
		assert.Equal(t, wantErr != nil, err != nil, "%s: the original says %v, and kcm %v", name, wantErr, err)
		if wantErr == nil && err == nil {
			assert.Equal(t, want.Raw, got.Raw, name)
		}
	}
}

// signed is a request with this content, which may be nonsense, and a true signature.
func signed(content []byte, key crypto.Signer) []byte {
	digest := sha256.Sum256(content)
	signature := must(key.Sign(rand.Reader, digest[:], crypto.SHA256))
	return must(asn1.Marshal(struct {
		Content   asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{
		asn1.RawValue{FullBytes: content},
		pkix.AlgorithmIdentifier{Algorithm: []int{1, 2, 840, 10045, 4, 3, 2}}, // ECDSA with SHA-256
		asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)},
	}))
}

// FuzzKcmAndTheOriginalAnswerTheSame changes the bytes of what is asked for and signs it again, so that what no library
// would write is looked at, too. What the one takes for a request, recognises or signs, the other one does as well.
func FuzzKcmAndTheOriginalAnswerTheSame(f *testing.F) {
	key := keys()["P-256"]
	ca := newCA(key, now.AddDate(10, 0, 0))
	for _, request := range requests() {
		f.Add(request.RawTBSCertificateRequest, uint32(1<<1|1<<3|1<<12), int64(24*time.Hour)) // as a kubelet asks
		f.Add(request.RawTBSCertificateRequest, ^uint32(0), int64(time.Minute))
	}
	f.Fuzz(func(t *testing.T, content []byte, which uint32, lifetime int64) {
		if len(content) == 0 {
			t.Skip("there is nothing to sign")
		}
		var wanted usages
		theirs := sets.NewString()
		for i, usage := range every {
			if which&(1<<i) != 0 {
				wanted = append(wanted, usage)
				theirs.Insert(string(usage))
			}
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: signed(content, key)})
		want, wantErr := originalhelpers.ParseCSR(text)
		got, err := certificates.ParseRequest(text)
		require.Equal(t, wantErr != nil, err != nil, "whether it is a request: the original says %v, and kcm %v", wantErr, err)
		if err != nil {
			return
		}
		require.Equal(t, want.Raw, got.Raw)
		require.Equal(t, reason(originalhelpers.ValidateKubeletClientCSR(want, theirs)), reason(certificates.ValidateKubeletClient(got, wanted)))
		require.Equal(t, reason(originalhelpers.ValidateKubeletServingCSR(want, theirs)), reason(certificates.ValidateKubeletServing(got, wanted)))
		compare(t, ca, got, wanted, time.Duration(lifetime))
	})
}

// reason is why something is not recognised, or "".
func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// longest is what --cluster-signing-duration says where whole loops are compared.
const longest = 24 * time.Hour

// asked is a request as the API server has it, and what becomes of it: "a certificate", "nothing", or why it failed.
type asked struct {
	what, signer string
	request      *x509.CertificateRequest
	usages       usages
	seconds      *int32
	conditions   []certificatesv1.CertificateSigningRequestCondition
	want         string
}

func (a asked) object(i int) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("csr-%02d", i), UID: "uid", ResourceVersion: "1"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: a.request.Raw}),
			SignerName: a.signer, Usages: a.usages, ExpirationSeconds: a.seconds,
		},
		Status: certificatesv1.CertificateSigningRequestStatus{Conditions: a.conditions},
	}
}

// TestTheLoopsOfKcmAndOfTheOriginalAnswerTheSame has both loops answer the same requests, in real time: the original's
// waits for the kernel to tell of files, which keeps time from passing in a bubble.
func TestTheLoopsOfKcmAndOfTheOriginalAnswerTheSame(t *testing.T) {
	t.Parallel()
	key := keys()["RSA 2048"].(*rsa.PrivateKey)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().AddDate(1, 0, 0), KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true}
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	certificate := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600))

	rows := corpus()
	var here, there []runtime.Object
	for i, row := range rows {
		here, there = append(here, row.object(i)), append(there, row.object(i))
	}
	ours, theirs := fake.NewSimpleClientset(here...), fake.NewSimpleClientset(there...)
	runs(t, ours, func(ctx context.Context, factory informers.SharedInformerFactory) []func() {
		signers := must(signer.NewSigners(kcmconfig.CSRSigningControllerConfiguration{ClusterSigningCertFile: certFile, ClusterSigningKeyFile: keyFile}))
		loop := signer.New(ctx, ours, factory.Certificates().V1().CertificateSigningRequests(), signers, longest)
		return []func(){func() { loop.Run(ctx, 5) }}
	})
	runs(t, theirs, func(ctx context.Context, factory informers.SharedInformerFactory) (run []func()) {
		for _, name := range []string{"kubelet-serving", "kube-apiserver-client", "kube-apiserver-client-kubelet", "legacy-unknown"} {
			loop := must(original.NewCSRSigningController(ctx, name, "kubernetes.io/"+name, theirs,
				factory.Certificates().V1().CertificateSigningRequests(), certFile, keyFile, longest))
			run = append(run, func() { loop.Run(ctx, 5) })
		}
		return run
	})
	for i, row := range rows {
		var got, want *certificatesv1.CertificateSigningRequest
		assert.EventuallyWithT(t, func(c *assert.CollectT) {
			got, want = statusOf(ours, i), statusOf(theirs, i)
			assert.Equal(c, row.want, outcome(want), "the original: %s", row.what)
			assert.Equal(c, row.want, outcome(got), "kcm: %s", row.what)
		}, time.Minute, 10*time.Millisecond)
		if row.want == "a certificate" {
			sameCertificates(t, row.what, want.Status.Certificate, got.Status.Certificate)
		}
	}
}

// runs has loops work on what the client has until the test ends.
func runs(t *testing.T, client kubernetes.Interface, loops func(context.Context, informers.SharedInformerFactory) []func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactory(client, 0)
	var running sync.WaitGroup
	for _, run := range loops(ctx, factory) {
		running.Go(run)
	}
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	})
}

func statusOf(client kubernetes.Interface, i int) *certificatesv1.CertificateSigningRequest {
	return must(client.CertificatesV1().CertificateSigningRequests().Get(context.Background(), fmt.Sprintf("csr-%02d", i), metav1.GetOptions{}))
}

// outcome says what has become of a request, with the conditions that it has by then but for when they came.
func outcome(csr *certificatesv1.CertificateSigningRequest) string {
	words := "nothing"
	if len(csr.Status.Certificate) > 0 {
		words = "a certificate"
	}
	for _, c := range csr.Status.Conditions {
		if c.Type == certificatesv1.CertificateFailed && c.Reason != "" {
			words = fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return words
}

// sameCertificates compares two that were made some seconds after each other.
func sameCertificates(t *testing.T, what string, want, got []byte) {
	t.Helper()
	wantBlock, wantRest := pem.Decode(want)
	gotBlock, gotRest := pem.Decode(got)
	require.NotNil(t, wantBlock, what)
	require.NotNil(t, gotBlock, what)
	assert.Equal(t, wantBlock.Type, gotBlock.Type, what)
	assert.Equal(t, wantBlock.Headers, gotBlock.Headers, what)
	assert.Equal(t, wantRest, gotRest, what)
	const validity = 4
	sameParts(t, wantBlock.Bytes, gotBlock.Bytes, validity)
	theirs, ours := must(x509.ParseCertificate(wantBlock.Bytes)), must(x509.ParseCertificate(gotBlock.Bytes))
	assert.Equal(t, theirs.NotAfter.Sub(theirs.NotBefore), ours.NotAfter.Sub(ours.NotBefore), "how long it is valid: %s", what)
	assert.WithinDuration(t, theirs.NotBefore, ours.NotBefore, time.Minute, what)
}

// corpus is what the loops are asked.
func corpus() []asked {
	all := requests()
	const client, kubelet, serving, legacy = "kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet",
		"kubernetes.io/kubelet-serving", "kubernetes.io/legacy-unknown"
	is := func(kinds ...certificatesv1.RequestConditionType) (conditions []certificatesv1.CertificateSigningRequestCondition) {
		for _, kind := range kinds {
			conditions = append(conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue})
		}
		return conditions
	}
	approved := is(certificatesv1.CertificateApproved)
	const certificate, refused = "a certificate", "Failed True SignerValidationFailure: "
	forClients, forServing := usages{"digital signature", "client auth"}, usages{"server auth", "key encipherment", "digital signature"}
	rows := []asked{
		{"a person", client, all["a person of many groups"], usages{"client auth"}, nil, approved, certificate},
		{"a person who serves", client, all["a person of many groups"], usages{"client auth", "server auth"}, nil, approved, refused + "invalid usage for client certificate: server auth"},
		{"no client", client, all["a person of many groups"], usages{"digital signature"}, nil, approved, refused + "missing required usage for client certificate: client auth"},
		{"no usage", client, all["a person of many groups"], nil, nil, approved, refused + "missing required usage for client certificate: client auth"},
		{"a kubelet", kubelet, all["a kubelet"], forClients, nil, approved, certificate},
		{"a kubelet that is none", kubelet, all["a person of many groups"], forClients, nil, approved, refused + "subject organization is not system:nodes"},
		{"a kubelet with addresses", kubelet, all["a kubelet that serves"], forClients, nil, approved, refused + "DNS subjectAltNames are not allowed"},
		{"a kubelet with other usages", kubelet, all["a kubelet"], forServing, nil, approved, refused + "usages did not match [client auth digital signature key encipherment]"},
		{"a kubelet that serves", serving, all["a kubelet that serves"], forServing, nil, approved, certificate},
		{"one that serves nowhere", serving, all["a kubelet"], forServing, nil, approved, refused + "DNS or IP subjectAltName is required"},
		{"names of all kinds", serving, all["names of all kinds"], forServing, nil, approved, refused + "Email subjectAltNames are not allowed"},
		{"what is old", legacy, all["extensions of an authority"], every, nil, approved, certificate},
		{"what is old and has an unknown usage", legacy, all["a kubelet"], usages{"dance"}, nil, approved, "nothing"},
		{"another's signature", kubelet, all["another's signature"], forClients, nil, approved, "nothing"},
		{"another program's", "example.com/mine", all["a kubelet"], forClients, nil, approved, "nothing"},
		{"no signer's", "kubernetes.io/kube-apiserver", all["a kubelet"], forClients, nil, approved, "nothing"},
		{"not approved", kubelet, all["a kubelet"], forClients, nil, nil, "nothing"},
		{"denied", kubelet, all["a kubelet"], forClients, nil, is(certificatesv1.CertificateDenied), "nothing"},
		{"approved and denied", kubelet, all["a kubelet"], forClients, nil, is(certificatesv1.CertificateApproved, certificatesv1.CertificateDenied), "nothing"},
		{"approved and failed", kubelet, all["a kubelet"], forClients, nil, is(certificatesv1.CertificateApproved, certificatesv1.CertificateFailed), "nothing"},
	}
	// The rule for clients reads nothing but usages, and so has no part in what is fuzzed.
	for _, usage := range every {
		want := refused + "invalid usage for client certificate: " + string(usage)
		if slices.Contains(usages{"client auth", "digital signature", "key encipherment"}, usage) {
			want = certificate
		}
		rows = append(rows, asked{"a person with the usage " + string(usage), client, all["a person of many groups"],
			usages{"client auth", usage}, nil, approved, want})
	}
	for _, seconds := range []int32{-1, 0, 60, 599, 600, 601, 3600, 28799, 28800, 28801, 86399, 86400, 86401, 1 << 30} {
		rows = append(rows, asked{fmt.Sprintf("for %d seconds", seconds), kubelet, all["a kubelet"], forClients, new(seconds), approved, certificate})
	}
	for kind := range keys() {
		rows = append(rows, asked{"with a key of the kind " + kind, kubelet, all["a key of the kind "+kind], forClients, nil, approved, certificate})
	}
	return rows
}
