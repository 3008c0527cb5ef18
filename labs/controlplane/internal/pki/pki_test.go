package pki

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, content []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(content)
	require.NotNil(t, block)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return cert
}

func TestCertificatesSayWhoTheirOwnersAre(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, err := New(dir, "10.96.0.1",
		map[string]User{"kcm": {Name: "system:kube-controller-manager", Groups: []string{"kcm-book:kcm"}}})
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(parse(t, c.CA))

	client := parse(t, c.Clients["kcm"].Cert)
	require.Equal(t, "system:kube-controller-manager", client.Subject.CommonName)
	require.Equal(t, []string{"kcm-book:kcm"}, client.Subject.Organization)
	_, err = client.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.NoError(t, err)

	content, err := os.ReadFile(filepath.Join(dir, "apiserver.crt"))
	require.NoError(t, err)
	for _, name := range []string{"127.0.0.1", "10.96.0.1", "localhost", "kubernetes.default.svc"} {
		_, err = parse(t, content).Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
		require.NoError(t, err, name)
	}
	content, err = os.ReadFile(filepath.Join(dir, "apiserver-etcd-client.crt"))
	require.NoError(t, err)
	_, err = parse(t, content).Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	require.Error(t, err, "etcd's clients have a CA of their own")
}

func TestKeysAreForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := New(dir, "10.96.0.1", nil)
	require.NoError(t, err)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		info, err := file.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file.Name())
	}
}
