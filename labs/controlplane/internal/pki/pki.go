// Package pki makes the keys and certificates with which the processes of a lab cluster prove who they are.
package pki

import (
	"crypto"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
)

// User is who a client is: a user's name, and groups.
type User struct {
	Name   string
	Groups []string
}

// KeyPair is a certificate and its key as PEM.
type KeyPair struct{ Cert, Key []byte }

// Credentials are what kubeconfigs are made of.
type Credentials struct {
	CA      []byte             // of the API server and of all its clients
	Clients map[string]KeyPair // by kubeconfig
}

// New creates all keys and certificates and writes those that processes read from files to dir, which only the owner
// may enter. The API server's certificate is valid for serviceIP too. The users are by name of their kubeconfig.
func New(dir, serviceIP string, users map[string]User) (*Credentials, error) {
	ca, etcdCA := newAuthority("labcluster-ca"), newAuthority("labcluster-etcd-ca")
	// Whoever has a certificate of this CA may tell the API server who the user is; so it signs nothing else.
	frontProxyCA := newAuthority("labcluster-front-proxy-ca")
	c := &Credentials{CA: pkiutil.EncodeCertPEM(ca.cert), Clients: map[string]KeyPair{}}
	for name, user := range users {
		c.Clients[name] = ca.issue(user)
	}
	files := map[string][]byte{
		"ca.crt":             c.CA,
		"ca.key":             encodeKey(ca.key), // for the CSR loops, which sign with it
		"etcd-ca.crt":        pkiutil.EncodeCertPEM(etcdCA.cert),
		"front-proxy-ca.crt": pkiutil.EncodeCertPEM(frontProxyCA.cert),
	}
	const local, loopback, service = "localhost", "127.0.0.1", "kubernetes.default"
	for name, pair := range map[string]KeyPair{
		"apiserver": ca.issue(User{Name: "kube-apiserver"},
			local, loopback, serviceIP, "kubernetes", service, service+".svc", service+".svc.cluster.local"),
		"apiserver-etcd-client": etcdCA.issue(User{Name: "kube-apiserver"}),
		"etcd":                  etcdCA.issue(User{Name: "etcd"}, local, loopback),
		"front-proxy-client":    frontProxyCA.issue(User{Name: "front-proxy-client"}),
		"scheduler":             ca.issue(User{Name: "kube-scheduler"}, local, loopback),
	} {
		files[name+".crt"], files[name+".key"] = pair.Cert, pair.Key
	}
	// Service-account tokens are signed with these.
	for _, name := range []string{"service-account", "service-account-next"} {
		key := must(pkiutil.GeneratePrivateKey(kubeadm.EncryptionAlgorithmECDSAP256))
		files[name+".key"], files[name+".pub"] = encodeKey(key), must(pkiutil.EncodePublicKeyPEM(key.Public()))
	}
	var err error
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return c, err
}

type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(name string) authority {
	cert, key, err := pkiutil.NewCertificateAuthority(configOf(User{Name: name}))
	return authority{must(cert, err), key}
}

// issue issues a certificate that says who a client is. With hosts it is one to serve on them as well: etcd is its own
// client.
func (a authority) issue(user User, hosts ...string) KeyPair {
	config := configOf(user)
	config.Usages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(hosts) > 0 {
		config.Usages = append(config.Usages, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			config.AltNames.IPs = append(config.AltNames.IPs, ip)
		} else {
			config.AltNames.DNSNames = append(config.AltNames.DNSNames, host)
		}
	}
	cert, key, err := pkiutil.NewCertAndKey(a.cert, a.key, config)
	return KeyPair{pkiutil.EncodeCertPEM(must(cert, err)), encodeKey(key)}
}

func configOf(user User) *pkiutil.CertConfig {
	config := &pkiutil.CertConfig{EncryptionAlgorithm: kubeadm.EncryptionAlgorithmECDSAP256}
	config.CommonName, config.Organization = user.Name, user.Groups
	config.NotBefore = time.Now().Add(-time.Hour) // clocks of a container and its host may differ
	return config
}

func encodeKey(key crypto.Signer) []byte { return must(keyutil.MarshalPrivateKeyToPEM(key)) }

// must is for what fails only if this package asks for nonsense.
func must[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}
