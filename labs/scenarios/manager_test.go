package scenarios

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // as kcm's main has it
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as kcm's main has it
	_ "k8s.io/component-base/metrics/prometheus/version"  // as kcm's main has it

	"github.com/kcm-book/kcm-book/kcm/app"
	"github.com/kcm-book/kcm-book/labs/cluster"
)

// referenceVariable in the environment has the original run instead of kcm.
const referenceVariable = "REFERENCE"

func reference() bool { return os.Getenv(referenceVariable) == "1" }

// runManagerVariable makes this test program kcm, so that kcm needs no build of
// its own and runs with the race detector when the tests do.
const runManagerVariable = "KCM_BOOK_RUN_MANAGER"

// runManager runs kcm until its standard input ends, which the kernel sees to
// when the tests have ended in whatever way.
func runManager() {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	os.Exit(cli.Run(app.NewControllerManagerCommand()))
}

// The loops that kcm has. The original runs no others, or they would take part.
var loops = strings.Join(app.KnownControllers(), ",")

// manager is a controller manager that runs as a process.
type manager struct {
	cmd    *exec.Cmd
	port   string
	log    *output
	exited chan struct{}
}

// startManager starts kcm or the original on the cluster.
func startManager(controllers string, flags ...string) (*manager, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	flags = append([]string{"--controllers=" + controllers, "--bind-address=127.0.0.1", "--secure-port=" + port}, flags...)
	var cmd *exec.Cmd
	if reference() {
		cmd = lab.Reference(context.Background(), flags...)
	} else {
		cmd = kcm(flags...)
	}
	m := &manager{cmd: cmd, port: port, log: &output{}, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = m.log, m.log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(m.exited)
		cmd.Wait() // how it has ended is in ProcessState
	}()
	return m, nil
}

// kcm returns the command that runs kcm on the cluster, with the flags with
// which the cluster runs the original.
func kcm(flags ...string) *exec.Cmd {
	flags = slices.Concat(cluster.ManagerFlags(lab, cluster.KCM), []string{"--use-service-account-credentials=true"}, flags)
	cmd := exec.Command(os.Args[0], flags...)
	cmd.Env = append(os.Environ(), runManagerVariable+"=1")
	if _, err := cmd.StdinPipe(); err != nil {
		cmd.Err = err
	}
	return cmd
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

func (m *manager) hasEnded() bool {
	select {
	case <-m.exited:
		return true
	default:
		return false
	}
}

func (m *manager) kill() {
	m.cmd.Process.Kill()
	<-m.exited
}

// waitForExit returns the exit code, or false if it runs for longer than that.
func (m *manager) waitForExit(timeout time.Duration) (code int, ok bool) {
	select {
	case <-m.exited:
		return m.cmd.ProcessState.ExitCode(), true
	case <-time.After(timeout):
		return 0, false
	}
}

// output is what a process has printed so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// tail returns the last n lines.
func (o *output) tail(n int) string {
	lines := strings.Split(strings.TrimSpace(o.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
