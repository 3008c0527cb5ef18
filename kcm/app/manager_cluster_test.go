package app_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
	"github.com/kcm-book/kcm-book/labs/process"
)

// kcm is the path of the program under test.
var kcm = sync.OnceValues(func() (string, error) {
	root, err := cluster.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "kcm.race")
	// With the race detector, as the tests are: what it needs is compiled.
	out, err := exec.Command("go", "build", "-race", "-o", path, "../cmd/kcm").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build kcm: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) { clustertest.Main(m) }

// replica is a kcm process.
type replica struct {
	*process.Process
	port string
}

// start runs kcm against the cluster of the tests. It runs one harmless loop
// under a Lease of the test's own, unless flags, which come last, say more.
func start(t *testing.T, lease string, flags ...string) *replica {
	t.Helper()
	c := clustertest.Cluster(t)
	kubeconfig := c.Kubeconfigs[cluster.KCM]
	port := freePort(t)
	return run(t, port, append([]string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--secure-port=" + port,
		"--controllers=serviceaccount-controller",
		"--leader-elect-resource-name=" + lease,
		"--leader-elect-lease-duration=3s",
		"--leader-elect-renew-deadline=2s",
		"--leader-elect-retry-period=250ms",
	}, flags...)...)
}

func run(t *testing.T, port string, flags ...string) *replica {
	t.Helper()
	clustertest.SkipIfShort(t)
	path, err := kcm()
	require.NoError(t, err)
	p, err := process.Start(exec.Command(path, flags...))
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log of kcm on port %s:\n%s", port, p.Log)
		}
	})
	return &replica{p, port}
}

func freePort(t *testing.T) string {
	t.Helper()
	port, err := process.FreePort()
	require.NoError(t, err)
	return port
}

func (r *replica) waitForLog(t *testing.T, text string) {
	t.Helper()
	clustertest.Eventually(t, fmt.Sprintf("kcm logs %q", text), func(context.Context) error {
		if log := r.Log.String(); !strings.Contains(log, text) {
			return errors.New(log)
		}
		return nil
	})
}

// exitCode waits until the process has ended.
func (r *replica) exitCode(t *testing.T) int {
	t.Helper()
	clustertest.Eventually(t, "kcm has ended", func(context.Context) error {
		if r.Running() {
			return errors.New(r.Log.String())
		}
		return nil
	})
	return r.Cmd.ProcessState.ExitCode()
}

// get asks kcm for path as the admin.
func (r *replica) get(t *testing.T, path string) (int, string) {
	t.Helper()
	code, body, err := r.ask(t, http.MethodGet, path, nil)
	require.NoError(t, err)
	return code, body
}

// ask sends any request, to a manager that may not serve yet.
func (r *replica) ask(t *testing.T, method, path string, body io.Reader) (int, string, error) {
	t.Helper()
	config := clustertest.Cluster(t).RESTConfig(cluster.Admin)
	config.TLSClientConfig.Insecure = true // kcm made its certificate itself
	config.TLSClientConfig.CAData, config.TLSClientConfig.CAFile = nil, ""
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), method, "https://127.0.0.1:"+r.port+path, body)
	require.NoError(t, err)
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, string(answer), err
}

// waitUntilServing waits until kcm knows by which CA it recognises the admin.
func (r *replica) waitUntilServing(t *testing.T) {
	t.Helper()
	r.waitUntilLeading(t)
	clustertest.Eventually(t, "kcm recognises the admin", func(context.Context) error {
		if code, body := r.get(t, "/metrics"); code != http.StatusOK {
			return errors.New(body)
		}
		return nil
	})
}

func (r *replica) waitUntilLeading(t *testing.T) {
	t.Helper()
	r.waitForLog(t, `"Starting controller" controller="serviceaccount-controller"`)
}

func TestAReplicaServesWhileTheAPIServerIsAwayAndGoesOnWhenItComes(t *testing.T) {
	t.Parallel()
	clustertest.SkipIfShort(t)
	c, err := cluster.StartEmbedded(t.Context(), cluster.Options{})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Disturb(t.Context(), "kill", cluster.APIServer))
	port, ca := freePort(t), c.RootCA
	r := run(t, port, append(cluster.ManagerFlags(c, cluster.KCM), "--client-ca-file="+ca, "--requestheader-client-ca-file="+ca,
		"--bind-address=127.0.0.1", "--secure-port="+port, "--controllers=serviceaccount-controller")...)
	r.waitForLog(t, "Error retrieving lease lock")
	anybody := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer anybody.CloseIdleConnections()
	response, err := anybody.Get("https://127.0.0.1:" + port + "/healthz")
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, http.StatusOK, response.StatusCode)
	require.NoError(t, c.Disturb(t.Context(), "restart", cluster.APIServer))
	r.waitUntilLeading(t)
}

func TestAReplicaThatHasToAskTheAPIServerBeforeItServesWaitsForIt(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
		contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:%s"}}]}`, port), 0o600))
	r := run(t, "0", "--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--secure-port="+freePort(t))
	r.waitForLog(t, `"Waiting for the API server" server="https://127.0.0.1:`+port+`"`)
	require.NoError(t, r.Cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 0, r.exitCode(t))
}

func TestAReplicaThatWaitsForTheAPIServerStopsAtOnce(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	require.NoError(t, err)
	defer listener.Close()
	r := run(t, "0", "--master=https://"+listener.Addr().String(), "--secure-port=0")
	r.waitForLog(t, `"Golang settings"`)
	require.NoError(t, r.Cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 0, r.exitCode(t))
	assert.NotContains(t, r.Log.String(), "kcm:")
}

func TestASecondSignalEndsTheProcessAtOnce(t *testing.T) {
	t.Parallel()
	clustertest.SkipIfShort(t)
	// A cluster of its own: an API server that does not answer would disturb
	// the other tests.
	c, err := cluster.StartEmbedded(t.Context(), cluster.Options{})
	require.NoError(t, err)
	defer c.Close()
	r := run(t, "0", "--kubeconfig="+c.Kubeconfigs[cluster.KCM], "--secure-port=0", "--controllers=serviceaccount-controller")
	r.waitUntilLeading(t)
	require.NoError(t, c.Disturb(t.Context(), "stop", cluster.APIServer))
	require.NoError(t, r.Cmd.Process.Signal(syscall.SIGTERM))
	r.waitForLog(t, "All controllers have stopped") // and now it tries to release the Lease
	require.NoError(t, r.Cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 1, r.exitCode(t))
	require.NoError(t, c.Disturb(t.Context(), "cont", cluster.APIServer))
}

func TestAPortThatIsTakenIsReported(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	r := start(t, "port-taken", "--secure-port="+port)
	assert.Equal(t, 1, r.exitCode(t))
	assert.Contains(t, r.Log.String(), "kcm: --secure-port="+port)
	assert.Contains(t, r.Log.String(), "address already in use")
}

func TestCoordinatedElectionIsRefusedAndNotIgnored(t *testing.T) {
	t.Parallel()
	r := run(t, "0", "--feature-gates=CoordinatedLeaderElection=true")
	assert.Equal(t, 1, r.exitCode(t))
	assert.Contains(t, r.Log.String(), "kcm: --feature-gates=CoordinatedLeaderElection=true: kcm cannot have the API server choose the leader")
}

func TestAVersionThatCannotBeEmulatedIsRefused(t *testing.T) {
	t.Parallel()
	r := run(t, "0", "--emulated-version=1.20")
	assert.Equal(t, 1, r.exitCode(t))
	assert.Contains(t, r.Log.String(), "emulation version 1.20 is not between")
}

func TestAnUnknownFlagGetsOneLine(t *testing.T) {
	t.Parallel()
	r := run(t, "0", "--no-such-flag")
	assert.Equal(t, 1, r.exitCode(t))
	assert.Equal(t, "kcm: unknown flag: --no-such-flag; kcm --help lists all flags\n", r.Log.String())
}

func TestALoopShowsWhatItExpects(t *testing.T) {
	t.Parallel()
	r := start(t, "debug", "--controllers=serviceaccount-controller,replicationcontroller-controller")
	r.waitUntilServing(t)
	code, body := r.get(t, "/debug/controllers/replicationcontroller-controller")
	assert.Equal(t, http.StatusOK, code)
	assert.JSONEq(t, `{"expectations": []}`, body, "nothing was asked for")
	code, _ = r.get(t, "/debug/controllers/serviceaccount-controller")
	assert.Equal(t, http.StatusNotFound, code, "this loop has nothing to show")
}
