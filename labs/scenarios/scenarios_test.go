package scenarios

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // as kcm's main has it
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as kcm's main has it
	_ "k8s.io/component-base/metrics/prometheus/version"  // as kcm's main has it

	"github.com/kcm-book/kcm-book/kcm/app"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/process"
)

// How many scenarios run at the same time. They wait for the cluster most of the
// time, not for a processor.
const parallelScenarios = "8"

// asKCM in the environment makes this test program kcm, so that kcm needs no
// build of its own and runs with the race detector when the tests do.
const asKCM = "KCM_BOOK_AS_KCM"

// setting is that of all scenarios.
var setting = &play.Setting{Manifests: []string{"manifests"}}

func TestMain(m *testing.M) {
	if os.Getenv(asKCM) != "" {
		os.Exit(cli.Run(app.NewControllerManagerCommand()))
	}
	code, err := runOnCluster(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "scenarios:", err)
		code = 1
	}
	os.Exit(code)
}

// runOnCluster runs the tests while one manager runs all loops on a cluster.
func runOnCluster(m *testing.M) (code int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := cluster.Start(ctx, cluster.WithProgress(os.Stderr))
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	// A kind cluster does not end by itself when Ctrl-C ends the tests.
	defer context.AfterFunc(ctx, func() {
		c.Close()
		os.Exit(1)
	})()
	setting.Cluster = c
	if setting.Manager, err = play.KCM(ctx, c, os.Args[0], asKCM+"=1"); err != nil {
		return 1, err
	}
	if os.Getenv("REFERENCE") == "1" {
		if setting.Manager, err = play.Original(ctx, c, setting.Manager.Loops); err != nil {
			return 1, err
		}
	}
	log, end, err := setting.RunLoops()
	if err != nil {
		return 1, err
	}
	if err := flag.Set("test.parallel", parallelScenarios); err != nil { // one on the command line comes later and wins
		panic(err)
	}
	code = m.Run()
	err = end()
	if code != 0 || err != nil {
		fmt.Fprintf(os.Stderr, "the last lines of the controller manager's log:\n%s\n", process.LastLines(log.String(), 40))
	}
	return code, err
}

func TestScenarios(t *testing.T) {
	all, err := All(".")
	require.NoError(t, err)
	// The go command sees only here that a result depends on these, and must not show one manager's for the other's.
	t.Logf("with the original: %v; on kind: %v", os.Getenv("REFERENCE") == "1", cluster.OnKind())
	for _, scenario := range all {
		t.Run(scenario.Name, func(t *testing.T) {
			t.Parallel()
			script, err := play.ReadScript(scenario.Path, "manifests")
			require.NoError(t, err)
			testscript.Run(t, setting.Params(t.Context(), script, scenario.Variables...))
		})
	}
}
