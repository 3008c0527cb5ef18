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
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o604: true, 0o644: true} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			key, certificate := filepath.Join(t.TempDir(), "sa.key"), filepath.Join(t.TempDir(), "ca.crt")
			require.NoError(t, os.WriteFile(key, nil, 0o600))
			require.NoError(t, os.Chmod(key, mode)) // whatever the umask says
			require.NoError(t, os.WriteFile(certificate, nil, 0o644))
			_, fs, err := parse(t, "--service-account-private-key-file="+key, "--tls-private-key-file="+filepath.Join(t.TempDir(), "gone"), "--root-ca-file="+certificate)
			require.NoError(t, err)

			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			LogReadableKeys(klog.NewContext(t.Context(), logger), fs)
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if !warned {
				assert.Empty(t, log)
				return
			}
			assert.Contains(t, log, `flag="--service-account-private-key-file" file="`+key+`"`)
			assert.NotContains(t, log, certificate, "what is in it is for everybody")
		})
	}
}
