package options

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certutil "k8s.io/client-go/util/cert"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// listening is what listen leaves behind.
func listening(t *testing.T, o *KubeControllerManagerOptions, address net.IP, port int) (*config.Config, error) {
	t.Helper()
	o.SecureServing.BindAddress, o.SecureServing.BindPort = address, port
	c := &config.Config{}
	err := o.listen(c)
	if c.SecureServing != nil {
		t.Cleanup(func() { c.SecureServing.Listener.Close() })
	}
	return c, err
}

// opened opens a port of an address and leaves it to listen: to look for a free
// one and to open it later would be a race.
func opened(t *testing.T, o *KubeControllerManagerOptions, address net.IP) *config.Config {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address.String(), "0"))
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	o.SecureServing.Listener = listener
	c, err := listening(t, o, address, listener.Addr().(*net.TCPAddr).Port)
	require.NoError(t, err)
	return c
}

// given has the options name files with a certificate for kcm.example.
func given(t *testing.T, o *KubeControllerManagerOptions) {
	t.Helper()
	cert, key, err := certutil.GenerateSelfSignedCertKey("kcm.example", nil, nil)
	require.NoError(t, err)
	dir, files := t.TempDir(), &o.SecureServing.ServerCert.CertKey
	files.CertFile, files.KeyFile = filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(files.CertFile, cert, 0o600))
	require.NoError(t, os.WriteFile(files.KeyFile, key, 0o600))
}

// served returns the first certificate that is shown to who asks.
func served(t *testing.T, c *config.Config) *x509.Certificate {
	t.Helper()
	require.NotNil(t, c.SecureServing, "there is no port")
	require.NotNil(t, c.SecureServing.Cert, "there is no certificate")
	text, _ := c.SecureServing.Cert.CurrentCertKeyContent()
	block, _ := pem.Decode(text)
	require.NotNil(t, block, "the certificate is none: %q", text)
	certificate, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return certificate
}

func TestListen(t *testing.T) {
	t.Parallel()
	loopback := net.IPv4(127, 0, 0, 1)
	for _, test := range []struct {
		name  string
		check func(t *testing.T)
	}{
		{"with port 0 nothing is opened", func(t *testing.T) {
			c, err := listening(t, defaults(t), loopback, 0)
			require.NoError(t, err)
			assert.Nil(t, c.SecureServing, "what is served, with --secure-port=0")
		}},
		{"the port is open at once", func(t *testing.T) {
			o := defaults(t)
			given(t, o)
			var free net.Listener
			var c *config.Config
			var err error
			for range 10 { // somebody else may take the port in between
				free, err = net.Listen("tcp", "127.0.0.1:0")
				require.NoError(t, err)
				require.NoError(t, free.Close())
				if c, err = listening(t, o, loopback, free.Addr().(*net.TCPAddr).Port); err == nil {
					break
				}
			}
			require.NoError(t, err)
			require.NotNil(t, c.SecureServing, "there is no port")
			assert.Equal(t, free.Addr().String(), c.SecureServing.Listener.Addr().String(), "where it listens")
			connection, err := net.DialTimeout("tcp", free.Addr().String(), time.Minute)
			require.NoError(t, err, "nobody answers before Serve is called, but connections are taken")
			connection.Close()
		}},
		{"a port that is taken is reported by its flag", func(t *testing.T) {
			o := defaults(t)
			given(t, o)
			taken, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer taken.Close()
			port := taken.Addr().(*net.TCPAddr).Port
			_, err = listening(t, o, loopback, port)
			require.Error(t, err, "somebody listens at the port already")
			want := fmt.Sprintf("--secure-port=%d, --bind-address=127.0.0.1: ", port)
			assert.Equal(t, want, err.Error()[:min(len(want), len(err.Error()))], "the beginning of the error")
			assert.ErrorContains(t, err, "address already in use")
		}},
		{"without files a certificate is made for localhost", func(t *testing.T) {
			c := opened(t, defaults(t), loopback)
			assert.NoError(t, served(t, c).VerifyHostname("localhost"))
		}},
		{"a certificate that is made is good for 127.0.0.1 whatever the address", func(t *testing.T) {
			c := opened(t, defaults(t), net.IPv4zero)
			assert.NoError(t, served(t, c).VerifyHostname("127.0.0.1"), "who probes from the same machine connects to 127.0.0.1")
		}},
		{"a certificate that was given is used", func(t *testing.T) {
			o := defaults(t)
			given(t, o)
			assert.NoError(t, served(t, opened(t, o, loopback)).VerifyHostname("kcm.example"), "--tls-cert-file has a certificate for kcm.example")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.check(t)
		})
	}
}
