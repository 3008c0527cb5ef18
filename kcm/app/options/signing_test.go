package options

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/cert"
)

// authorityFiles are the names of two files with a certificate and its key.
func authorityFiles(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("ca", nil, nil)
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	require.NoError(t, os.WriteFile(certFile, certificate, 0o600))
	require.NoError(t, os.WriteFile(keyFile, key, 0o600))
	return certFile, keyFile
}

func TestWhichCertificateAuthoritiesMayBeNamedTogether(t *testing.T) {
	t.Parallel()
	certFile, keyFile := authorityFiles(t)
	_, otherKey := authorityFiles(t)
	files := strings.NewReplacer("CERT", certFile, "KEY", keyFile, "OTHER", otherKey)
	const shared = "--cluster-signing-cert-file=CERT --cluster-signing-key-file=KEY"
	const kubelets = "--cluster-signing-kubelet-client-cert-file=CERT --cluster-signing-kubelet-client-key-file=KEY"
	for _, test := range []struct{ what, args, want string }{
		{"none is named", "", ""},
		{"one for all signers", shared, ""},
		{"of one for all the certificate, as the original lets pass", "--cluster-signing-cert-file=CERT", ""},
		{"of one for all the key", "--cluster-signing-key-file=/no/such/file", ""},
		{"one for one signer", kubelets, ""},
		{"the same for two signers", kubelets + " --cluster-signing-kubelet-serving-cert-file=CERT --cluster-signing-kubelet-serving-key-file=KEY", ""},
		{"of one for one signer the certificate", "--cluster-signing-legacy-unknown-cert-file=CERT",
			"--cluster-signing-legacy-unknown-cert-file and --cluster-signing-legacy-unknown-key-file: must both be there, or neither"},
		{"of one for one signer the key", "--cluster-signing-kube-apiserver-client-key-file=KEY",
			"--cluster-signing-kube-apiserver-client-cert-file and --cluster-signing-kube-apiserver-client-key-file: must both be there, or neither"},
		{"one for all, and one for one", shared + " " + kubelets,
			"--cluster-signing-kubelet-client-cert-file and --cluster-signing-kubelet-client-key-file: must not be there beside --cluster-signing-cert-file or --cluster-signing-key-file"},
		{"half of one for all, and one for one", "--cluster-signing-key-file=KEY " + kubelets, "must not be there beside"},
		{"also where the loop is off", "--controllers=*,-csrsigning " + shared + " " + kubelets, "must not be there beside"},
		{"a file that is not there", "--cluster-signing-cert-file=/no/such/file --cluster-signing-key-file=KEY",
			"--cluster-signing-cert-file and --cluster-signing-key-file: read the certificates of the authority: open /no/such/file: no such file or directory"},
		{"the key of another", "--cluster-signing-cert-file=CERT --cluster-signing-key-file=OTHER", "--cluster-signing-cert-file and --cluster-signing-key-file: no certificate in "},
		{"the key of another, and the loop is off", "--controllers=-csrsigning,* --cluster-signing-cert-file=CERT --cluster-signing-key-file=OTHER", ""},
		{"no time to be valid", shared + " --cluster-signing-duration=0s", "--cluster-signing-duration=0s: must be above 0, or no certificate is ever valid"},
		{"no time, and nothing is signed", "--cluster-signing-duration=-1h", ""},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			err := mustParse(t, strings.Fields(files.Replace(test.args))...).Validate(known)
			if test.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, test.want)
			}
		})
	}
}

func TestWhatIsSaidOfCertificateAuthoritiesIsShown(t *testing.T) {
	t.Parallel()
	c, err := mustParse(t, "--kubeconfig="+kubeconfigFile(t), "--secure-port=0", "--cluster-signing-kubelet-serving-cert-file=a",
		"--cluster-signing-kubelet-serving-key-file=b", "--cluster-signing-legacy-unknown-cert-file=c", "--cluster-signing-duration=1h").Config(known)
	require.NoError(t, err)
	external, err := c.ComponentConfig.External()
	require.NoError(t, err)
	shown := external.CSRSigningController
	assert.Equal(t, "a", shown.KubeletServingSignerConfiguration.CertFile)
	assert.Equal(t, "b", shown.KubeletServingSignerConfiguration.KeyFile)
	assert.Equal(t, "c", shown.LegacyUnknownSignerConfiguration.CertFile)
	assert.Equal(t, time.Hour, shown.ClusterSigningDuration.Duration)
	assert.Empty(t, shown.ClusterSigningCertFile)
}
