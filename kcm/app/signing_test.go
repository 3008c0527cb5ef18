package app

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

func TestTheLogSaysWhatTheFlagsNameIfNothingIsSigned(t *testing.T) {
	t.Parallel()
	for situation, test := range map[string]struct{ cert, key, named string }{
		"the key alone is named":         {"", "ca.key", `certFile="" keyFile="ca.key"`},
		"the certificate alone is named": {"ca.crt", "", `certFile="ca.crt" keyFile=""`},
		"neither is named":               {"", "", `certFile="" keyFile=""`},
	} {
		t.Run(situation, func(t *testing.T) {
			t.Parallel()
			c := testContext("*")
			c.ComponentConfig.CSRSigningController.ClusterSigningCertFile = test.cert
			c.ComponentConfig.CSRSigningController.ClusterSigningKeyFile = test.key
			logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true)))
			loop, err := newCSRSigning(klog.NewContext(t.Context(), logger), c, fake.NewClientset())
			require.NoError(t, err)
			assert.Nil(t, loop, "nothing signs")
			logged := logger.GetSink().(ktesting.Underlier).GetBuffer()
			assert.Len(t, logged.Data(), 1, "lines of the log")
			assert.Contains(t, logged.String(), test.named)
		})
	}
}
