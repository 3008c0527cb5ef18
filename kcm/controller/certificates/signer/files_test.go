package signer

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

func TestTheCertificateThatBelongsToTheKeySigns(t *testing.T) {
	t.Parallel()
	oldKey, newerKey := newKey(t), newKey(t)
	old, newer := newCertificate(t, "old", oldKey, midnight), newCertificate(t, "new", newerKey, midnight.AddDate(1, 0, 0))
	renewed := newCertificate(t, "renewed", oldKey, midnight.AddDate(2, 0, 0))
	content := func(certificates ...*x509.Certificate) []byte { return certificatesPEM(t, certificates...) }
	curve, err := ecdh.X25519().GenerateKey(rand.Reader)
	require.NoError(t, err)
	cannotSign, err := x509.MarshalPKCS8PrivateKey(curve)
	require.NoError(t, err)
	for _, test := range []struct {
		situation         string
		certificates, key []byte
		want              string
	}{
		{"there is one", content(old), keyPEM(t, oldKey), "old"},
		{"another one comes after it", content(old, newer), keyPEM(t, oldKey), "old"},
		{"another one comes before it", content(newer, old), keyPEM(t, oldKey), "old"},
		{"both are there, and the key is the new one", content(old, newer), keyPEM(t, newerKey), "new"},
		{"it was renewed, and the former one stays", content(old, renewed), keyPEM(t, oldKey), "renewed"},
		{"it was renewed, and the former one stays below", content(renewed, old), keyPEM(t, oldKey), "renewed"},
		{"it is there twice", content(old, old), keyPEM(t, oldKey), "old"},
		{"there is a text above it", append([]byte("the CA of the cluster\n"), content(old)...), keyPEM(t, oldKey), "old"},
		{"the key is another's", content(old), keyPEM(t, newerKey), "no certificate in "},
		{"there is no key", content(old), nil, "read the key of the authority: "},
		{"the files are the wrong way round", keyPEM(t, oldKey), content(old), "read the key of the authority: "},
		{"there is no certificate", nil, keyPEM(t, oldKey), "read the certificates in "},
		{"the key is for secrets in common", content(old), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: cannotSign}), "cannot sign"},
	} {
		t.Run(test.situation, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, test.certificates, test.key)
			authority, err := ReadAuthority(p.certFile, p.keyFile)
			if err != nil {
				require.ErrorContains(t, err, test.want)
				assert.True(t, strings.Contains(err.Error(), p.certFile) || strings.Contains(err.Error(), p.keyFile), "it says in which file: %v", err)
				return
			}
			assert.Equal(t, test.want, authority.Certificate.Subject.CommonName)
		})
	}
	for missing, files := range map[string]pair{
		"ca.crt": {filepath.Join(t.TempDir(), "ca.crt"), newPair(t, nil, nil).keyFile},
		"ca.key": {newPair(t, content(old), nil).certFile, filepath.Join(t.TempDir(), "ca.key")},
	} {
		_, err := NewAuthorityFiles(files.certFile, files.keyFile)
		assert.ErrorIs(t, err, os.ErrNotExist, missing)
		assert.ErrorContains(t, err, missing)
	}
}

func TestTheFilesAreReplacedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	oldKey, newerKey := newKey(t), newKey(t)
	old, newer := newCertificate(t, "old", oldKey, midnight), newCertificate(t, "new", newerKey, midnight)
	both := certificatesPEM(t, old, newer)
	p := newPair(t, both, keyPEM(t, oldKey))
	files, err := NewAuthorityFiles(p.certFile, p.keyFile)
	require.NoError(t, err)
	logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	signs := func() string { return files.current(ctx).Certificate.Subject.CommonName }
	log := func() string { return logger.GetSink().(ktesting.Underlier).GetBuffer().String() }

	assert.Equal(t, "old", signs())
	replace(t, p.keyFile, keyPEM(t, newerKey))
	assert.Equal(t, "new", signs(), "the key alone has changed, and both certificates are there")
	assert.Empty(t, log())

	for situation, content := range map[string][]byte{
		"the key is a third one": keyPEM(t, newKey(t)),
		"the key is half there":  keyPEM(t, newerKey)[:50],
		"the key is empty":       nil,
	} {
		replace(t, p.keyFile, content)
		assert.Equal(t, "new", signs(), situation)
		assert.Contains(t, log(), p.keyFile, situation)
		if len(content) > 60 {
			assert.NotContains(t, log(), strings.Split(string(content), "\n")[1], "of a key nothing is in the log")
		}
	}
	require.NoError(t, os.Remove(p.keyFile))
	assert.Equal(t, "new", signs(), "the key is gone")
	replace(t, p.keyFile, keyPEM(t, oldKey))
	assert.Equal(t, "old", signs(), "the former key is back")
}

func TestARequestIsSignedAtOnceByTheAuthorityThatComesAfterOneThatHasEnded(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	p := newPair(t, certificatesPEM(t, newCertificate(t, "ca", key, midnight.Add(-time.Hour))), keyPEM(t, key))
	files, err := NewAuthorityFiles(p.certFile, p.keyFile)
	require.NoError(t, err)
	renewed := certificatesPEM(t, newCertificate(t, "ca", key, midnight.AddDate(1, 0, 0)))
	play(t, forAll(files), func(w *world) {
		w.rest(time.Hour) // by now the next try is many minutes away
		assert.Equal(t, "nothing", w.told())
		replace(t, p.certFile, renewed)
		require.NoError(t, files.certificates.RunOnce(t.Context())) // it is what watches the file that sees that
		w.rest(0)
		assert.Equal(t, "a gets a certificate", w.told())
	}, asks(t, "a"))
}

// In real time: what waits for the kernel to tell of a file keeps time from passing in a bubble.
func TestTheFilesAreWatchedWhileTheLoopRuns(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	p := newPair(t, certificatesPEM(t, newCertificate(t, "ca", key, time.Now().Add(-time.Hour))), keyPEM(t, key))
	files, err := NewAuthorityFiles(p.certFile, p.keyFile)
	require.NoError(t, err)
	client := fake.NewSimpleClientset(asks(t, "a"))
	factory := informers.NewSharedInformerFactory(client, 0)
	c := New(t.Context(), client, factory.Certificates().V1().CertificateSigningRequests(), forAll(files), time.Hour)
	failures := make(chan error, 1000)
	attempt := c.loop.Sync
	c.loop.Sync = func(ctx context.Context, key cache.ObjectName) error {
		err := attempt(ctx, key)
		if err != nil {
			failures <- err
		}
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx, 1) })
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	})
	require.ErrorContains(t, <-failures, "the authority's certificate was valid until")
	replace(t, p.certFile, certificatesPEM(t, newCertificate(t, "ca", key, time.Now().Add(time.Hour))))
	require.Eventually(t, func() bool {
		csr, err := client.CertificatesV1().CertificateSigningRequests().Get(ctx, "a", metav1.GetOptions{})
		return err == nil && len(csr.Status.Certificate) > 0
	}, 2*time.Minute, time.Millisecond)
}
