package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// How long certificates are valid: longer than any lab cluster lives.
const validity = 365 * 24 * time.Hour

// authority is a certificate authority.
type authority struct {
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
	certPEM []byte
}

// keyPair is a certificate and its key as PEM.
type keyPair struct{ cert, key []byte }

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := newTemplate(pkix.Name{CommonName: name})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create CA %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, certPEM: encode("CERTIFICATE", der)}, nil
}

// client issues a certificate that says who a client is: common name is the user, organisations are the groups.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	template := newTemplate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// server issues a serving certificate for the loopback address and the given names. It can be a client's as well, which
// an etcd member is to itself.
func (a *authority) server(name string, names ...string) (keyPair, error) {
	template := newTemplate(pkix.Name{CommonName: name})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = append([]string{"localhost"}, names...)
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(serviceIP)}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("create certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{cert: encode("CERTIFICATE", der), key: keyPEM}, nil
}

func newTemplate(subject pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	now := time.Now()
	// An hour of grace, because clocks of a container and its host may differ.
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity)}
}

// newSigningKey returns a key for service-account tokens: private and public part as PEM.
func newSigningKey() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	private, err = encodeKey(key)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	return private, encode("PUBLIC KEY", der), err
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return encode("EC PRIVATE KEY", der), err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// pki is what the processes of a cluster prove themselves with.
type pki struct {
	ca      *authority
	admin   keyPair // the supervisor's own client certificate too
	etcd    keyPair // the API server's client certificate for etcd
	etcdCA  *authority
	clients map[string]keyPair // by kubeconfig
}

// users are the kubeconfigs of a cluster: user name and groups by name of the kubeconfig.
var users = map[string]struct {
	name   string
	groups []string
}{
	"admin":     {"kubernetes-admin", []string{"system:masters"}},
	"scheduler": {"system:kube-scheduler", nil},
	// RBAC's bootstrap policy knows the controller manager by this name. The groups tell the two apart in the audit log.
	"kcm":       {"system:kube-controller-manager", []string{"kcm-book:kcm"}},
	"reference": {"system:kube-controller-manager", []string{"kcm-book:reference"}},
	// kwok acts for all nodes at once, which no built-in role allows.
	"kwok": {kwokUser, []string{"system:masters"}},
}

// newPKI creates all keys and certificates and writes those that processes read from files to dir.
func newPKI(dir string) (*pki, error) {
	ca, err := newAuthority("labcluster-ca")
	if err != nil {
		return nil, err
	}
	etcdCA, err := newAuthority("labcluster-etcd-ca")
	if err != nil {
		return nil, err
	}
	// Whoever has a certificate of this CA may tell the API server who the user is; so it signs nothing else.
	frontProxyCA, err := newAuthority("labcluster-front-proxy-ca")
	if err != nil {
		return nil, err
	}
	p := &pki{ca: ca, etcdCA: etcdCA, clients: map[string]keyPair{}}
	w := &pairWriter{dir: dir}
	w.write("ca.crt", ca.certPEM)
	w.writeKey("ca.key", ca.key) // for the CSR loops, which sign with it
	w.write("etcd-ca.crt", etcdCA.certPEM)
	w.write("front-proxy-ca.crt", frontProxyCA.certPEM)
	w.pair("apiserver")(ca.server("kube-apiserver", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"))
	w.pair("scheduler")(ca.server("kube-scheduler"))
	w.pair("etcd")(etcdCA.server("etcd"))
	w.pair("front-proxy-client")(frontProxyCA.client("front-proxy-client"))
	p.etcd = w.pair("apiserver-etcd-client")(etcdCA.client("kube-apiserver"))
	for name, user := range users {
		p.clients[name] = w.keep(ca.client(user.name, user.groups...))
	}
	p.admin = p.clients["admin"]
	for _, name := range []string{"service-account", "service-account-next"} {
		private, public, err := newSigningKey()
		w.fail(err)
		w.write(name+".key", private)
		w.write(name+".pub", public)
	}
	return p, w.err
}

// pairWriter writes PEM files that only the owner can read, and keeps the first error.
type pairWriter struct {
	dir string
	err error
}

func (w *pairWriter) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *pairWriter) write(name string, content []byte) {
	if w.err == nil {
		w.err = os.WriteFile(filepath.Join(w.dir, name), content, 0o600)
	}
}

func (w *pairWriter) writeKey(name string, key *ecdsa.PrivateKey) {
	content, err := encodeKey(key)
	w.fail(err)
	w.write(name, content)
}

func (w *pairWriter) keep(pair keyPair, err error) keyPair {
	w.fail(err)
	return pair
}

// pair returns a function that writes a certificate and its key to name.crt and name.key.
func (w *pairWriter) pair(name string) func(keyPair, error) keyPair {
	return func(pair keyPair, err error) keyPair {
		w.fail(err)
		w.write(name+".crt", pair.cert)
		w.write(name+".key", pair.key)
		return pair
	}
}
