package options

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inFile writes a kubeconfig with which tom logs in at server.
func inFile(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: here,
		contexts: [{name: here, context: {cluster: here, user: tom}}],
		clusters: [{name: here, cluster: {server: %q}}], users: [{name: tom, user: {token: toms}}]}`, server), 0o600))
	return file
}

// connect tells where the flags lead.
func connect(t *testing.T, master, kubeconfig string) string {
	t.Helper()
	o := defaults(t)
	o.Master, o.Generic.ClientConnection.Kubeconfig = master, kubeconfig
	o.Generic.ClientConnection.QPS, o.Generic.ClientConnection.Burst = 7, 8
	o.Generic.ClientConnection.ContentType = "application/json"
	c, err := o.kubeconfig()
	if err != nil {
		return "error: " + err.Error()
	}
	who := "nobody"
	if c.BearerToken != "" {
		who = "who has the token " + c.BearerToken
	}
	return fmt.Sprintf("%s as %s; %g requests a second, at most %d at once, as %s; compressed: %t",
		c.Host, who, c.QPS, c.Burst, c.ContentType, !c.DisableCompression)
}

func TestConnection(t *testing.T) {
	t.Parallel()
	const pace = "; 7 requests a second, at most 8 at once, as application/json; compressed: false"
	t.Run("the file says where the API server is and who asks", func(t *testing.T) {
		t.Parallel()
		seen := connect(t, "", inFile(t, "https://file:6443"))
		assert.Equal(t, "https://file:6443 as who has the token toms"+pace, seen, "--kubeconfig=FILE")
	})
	t.Run("the address of master wins over the one in the file", func(t *testing.T) {
		t.Parallel()
		seen := connect(t, "https://master:6443", inFile(t, "https://file:6443"))
		assert.Equal(t, "https://master:6443 as who has the token toms"+pace, seen, "--kubeconfig=FILE --master=https://master:6443")
	})
	t.Run("an address alone is enough", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "https://master:6443 as nobody"+pace, connect(t, "https://master:6443", ""), "--master=https://master:6443")
	})
	t.Run("an error in the file names the flag and the file", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "kubeconfig")
		require.NoError(t, os.WriteFile(file, []byte("{clusters: tom}"), 0o600))
		seen := connect(t, "", file)
		assert.Contains(t, seen, "error: --kubeconfig="+file+": ", "the beginning of the error")
		assert.Contains(t, seen, "unmarshal", "what is wrong in the file")
	})
}

// An environment belongs to the whole process, so this is not parallel.
func TestConnectionWithoutFlags(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Run("without flags and outside of a pod the error says which flag is needed", func(t *testing.T) {
		seen := connect(t, "", "")
		assert.Contains(t, seen, "error: --kubeconfig is needed outside of a pod: ")
		assert.Contains(t, seen, "unable to load in-cluster configuration", "why this is not a pod")
	})
	t.Run("KUBECONFIG is for people and is not looked at", func(t *testing.T) {
		t.Setenv("KUBECONFIG", inFile(t, "https://people:6443"))
		assert.NotContains(t, connect(t, "", ""), "https://people:6443", "KUBECONFIG=FILE kcm")
	})
	t.Run("in a pod the address of the API server is not asked of a file", func(t *testing.T) {
		t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
		t.Setenv("KUBERNETES_SERVICE_PORT", "443")
		// The pod's token would be at a fixed place, where tests have none.
		assert.Contains(t, connect(t, "", ""), "/var/run/secrets/kubernetes.io/serviceaccount/token")
	})
}
