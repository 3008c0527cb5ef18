package scenarios

import (
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // as kcm's main has it
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as kcm's main has it
	_ "k8s.io/component-base/metrics/prometheus/version"  // as kcm's main has it

	"github.com/kcm-book/kcm-book/kcm/app"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/process"
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
	*process.Process
	port string
}

// startManager starts kcm or the original on the cluster.
func startManager(controllers string, flags ...string) (*manager, error) {
	port, err := process.FreePort()
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
	p, err := process.Start(cmd)
	return &manager{p, port}, err
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
