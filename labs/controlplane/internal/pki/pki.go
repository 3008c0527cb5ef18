// Package pki makes the keys and certificates with which the processes of a lab cluster prove who they are.
package pki

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

// Authority is a certificate authority.
type Authority struct {
	Cert    *x509.Certificate
	CertPEM []byte
	key     *ecdsa.PrivateKey
}

// KeyPair is a certificate and its key as PEM.
type KeyPair struct{ Cert, Key []byte }

func newAuthority(name string) (*Authority, error) {
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
	return &Authority{Cert: cert, key: key, CertPEM: encode("CERTIFICATE", der)}, nil
}

// client issues a certificate that says who a client is: common name is the user, organisations are the groups.
func (a *Authority) client(user string, groups ...string) (KeyPair, error) {
	template := newTemplate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// server issues a serving certificate for the loopback address and the given addresses and names. It can be a client's as
// well, which an etcd member is to itself.
func (a *Authority) server(name string, addresses []net.IP, names ...string) (KeyPair, error) {
	template := newTemplate(pkix.Name{CommonName: name})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = append([]string{"localhost"}, names...)
	template.IPAddresses = append([]net.IP{net.IPv4(127, 0, 0, 1)}, addresses...)
	return a.issue(template)
}

func (a *Authority) issue(template *x509.Certificate) (KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return KeyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.Cert, key.Public(), a.key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("create certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return KeyPair{}, err
	}
	return KeyPair{Cert: encode("CERTIFICATE", der), Key: keyPEM}, nil
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

// Credentials are what the supervisor itself uses of all that New has made.
type Credentials struct {
	CA      *Authority // of the API server and of all its clients
	EtcdCA  *Authority
	Etcd    KeyPair            // the API server's client certificate for etcd
	Clients map[string]KeyPair // by kubeconfig
}

// User is who a client is.
type User struct {
	Name   string
	Groups []string
}

// New creates all keys and certificates and writes those that processes read from files to dir. The API server's
// certificate is valid for serviceIP too. The users are by name of their kubeconfig.
func New(dir, serviceIP string, users map[string]User) (*Credentials, error) {
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
	c := &Credentials{CA: ca, EtcdCA: etcdCA, Clients: map[string]KeyPair{}}
	w := &pairWriter{dir: dir}
	w.write("ca.crt", ca.CertPEM)
	w.writeKey("ca.key", ca.key) // for the CSR loops, which sign with it
	w.write("etcd-ca.crt", etcdCA.CertPEM)
	w.write("front-proxy-ca.crt", frontProxyCA.CertPEM)
	w.pair("apiserver")(ca.server("kube-apiserver", []net.IP{net.ParseIP(serviceIP)}, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"))
	w.pair("scheduler")(ca.server("kube-scheduler", nil))
	w.pair("etcd")(etcdCA.server("etcd", nil))
	w.pair("front-proxy-client")(frontProxyCA.client("front-proxy-client"))
	c.Etcd = w.pair("apiserver-etcd-client")(etcdCA.client("kube-apiserver"))
	for name, user := range users {
		c.Clients[name] = w.keep(ca.client(user.Name, user.Groups...))
	}
	for _, name := range []string{"service-account", "service-account-next"} {
		private, public, err := newSigningKey()
		w.fail(err)
		w.write(name+".key", private)
		w.write(name+".pub", public)
	}
	return c, w.err
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

func (w *pairWriter) keep(pair KeyPair, err error) KeyPair {
	w.fail(err)
	return pair
}

// pair returns a function that writes a certificate and its key to name.crt and name.key.
func (w *pairWriter) pair(name string) func(KeyPair, error) KeyPair {
	return func(pair KeyPair, err error) KeyPair {
		w.fail(err)
		w.write(name+".crt", pair.Cert)
		w.write(name+".key", pair.Key)
		return pair
	}
}
