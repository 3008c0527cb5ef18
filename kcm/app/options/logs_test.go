package options

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

func TestAKeyThatEverybodyMayReadIsWarnedAbout(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flag   string
		mode   os.FileMode
		warned bool
	}{
		{"--service-account-private-key-file", 0o600, false},
		{"--service-account-private-key-file", 0o640, false},
		{"--service-account-private-key-file", 0o604, true},
		{"--service-account-private-key-file", 0o644, true},
		{"--cluster-signing-key-file", 0o600, false},
		{"--cluster-signing-key-file", 0o644, true},
		{"--cluster-signing-legacy-unknown-key-file", 0o644, true},
	} {
		t.Run(test.flag+" "+test.mode.String(), func(t *testing.T) {
			t.Parallel()
			key, certificate := filepath.Join(t.TempDir(), "sa.key"), filepath.Join(t.TempDir(), "ca.crt")
			require.NoError(t, os.WriteFile(key, nil, 0o600))
			require.NoError(t, os.Chmod(key, test.mode)) // whatever the umask says
			require.NoError(t, os.WriteFile(certificate, nil, 0o644))
			_, fs, err := parse(t, test.flag+"="+key, "--tls-private-key-file="+filepath.Join(t.TempDir(), "gone"), "--root-ca-file="+certificate)
			require.NoError(t, err)

			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			LogReadableKeys(klog.NewContext(t.Context(), logger), fs)
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if !test.warned {
				assert.Empty(t, log)
				return
			}
			assert.Contains(t, log, `flag="`+test.flag+`" file="`+key+`"`)
			assert.NotContains(t, log, certificate, "what is in it is for everybody")
		})
	}
}
