package signer

import (
	"context"
	"crypto"
	"fmt"
	"os"
	"sync"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
)

// AuthorityFiles are the two files that hold an authority: certificates, and a key.
// Both may be replaced while the manager runs.
//
// The first file may hold several certificates, as it does while an authority is
// replaced and both have to be trusted: the file that signs is then usually the one
// that is trusted, too. (The original does not start with such a file, and if it
// runs already it signs nothing more: https://github.com/kubernetes/kubeadm/issues/1350.)
type AuthorityFiles struct {
	certificates      *dynamiccertificates.DynamicFileCAContent
	certFile, keyFile string

	mu   sync.Mutex
	last *Authority // the last that the files have held
}

// NewAuthorityFiles reads an authority from files. It is an error if they do not
// hold one. Changes of certFile are seen while a [Controller] runs.
func NewAuthorityFiles(certFile, keyFile string) (*AuthorityFiles, error) {
	last, err := ReadAuthority(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	certificates, err := dynamiccertificates.NewDynamicCAContentFromFile("csr-controller", certFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificates in %s: %w", certFile, err)
	}
	return &AuthorityFiles{certificates: certificates, certFile: certFile, keyFile: keyFile, last: last}, nil
}

// ReadAuthority returns the authority that two files hold now: the key in keyFile,
// and of the certificates in certFile the one that belongs to it. If several do, it
// is the one that is valid longest: an authority that was renewed keeps its key.
func ReadAuthority(certFile, keyFile string) (*Authority, error) {
	certificates, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificates of the authority: %w", err)
	}
	return authorityOf(certificates, certFile, keyFile)
}

// current returns the authority that the files hold or, while they hold none, the
// last one: the files are replaced one after the other, and for that time the key
// belongs to none of the certificates. Both are read each time. The key may change
// alone, where the file with the certificates has both the old one and the new one.
func (f *AuthorityFiles) current(ctx context.Context) *Authority {
	f.mu.Lock()
	defer f.mu.Unlock()
	authority, err := ReadAuthority(f.certFile, f.keyFile)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The files hold no certificate authority; the one that they have held before signs", "keyFile", f.keyFile)
		return f.last
	}
	f.last = authority
	return authority
}

// authorityOf finds the certificate, of those from certFile, that belongs to the key
// in keyFile.
func authorityOf(certificates []byte, certFile, keyFile string) (*Authority, error) {
	key, err := keyutil.PrivateKeyFromFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the key of the authority: %w", err)
	}
	all, err := cert.ParseCertsPEM(certificates)
	if err != nil {
		return nil, fmt.Errorf("read the certificates in %s: %w", certFile, err)
	}
	signs, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key in %s cannot sign", keyFile)
	}
	public, ok := signs.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return nil, fmt.Errorf("the key in %s is of an unknown kind", keyFile)
	}
	a := &Authority{Key: signs}
	for _, c := range all {
		if public.Equal(c.PublicKey) && (a.Certificate == nil || c.NotAfter.After(a.Certificate.NotAfter)) {
			a.Certificate = c
		}
	}
	if a.Certificate == nil {
		return nil, fmt.Errorf("no certificate in %s belongs to the key in %s", certFile, keyFile)
	}
	return a, nil
}
