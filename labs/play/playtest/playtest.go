// Package playtest gives a test package a cluster in which scripts are played with kcm, which the test program is
// itself.
package playtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // as kcm's main has it
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as kcm's main has it
	_ "k8s.io/component-base/metrics/prometheus/version"  // as kcm's main has it

	"github.com/kcm-book/kcm-book/kcm/app"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/process"
)

// asKCM in the environment makes the test program kcm, so that kcm needs no build of its own and runs with the race
// detector when the tests do.
const asKCM = "KCM_BOOK_AS_KCM"

// Main runs the tests of a package, and exits. The first that calls [Ready] starts a cluster, and a manager that runs
// all loops on it until the last has ended: kcm, or with REFERENCE=1 in the environment the original. The run fails if
// the manager ends before the tests, or if goroutines are left after them. Call it from TestMain.
func Main(m *testing.M, setting *play.Setting) {
	if os.Getenv(asKCM) != "" {
		os.Exit(cli.Run(app.NewControllerManagerCommand()))
	}
	ctx := context.Background()
	var log *process.Log
	var ends []func() error
	ready = sync.OnceValue(func() error {
		c, err := cluster.Start(ctx, cluster.Options{Progress: os.Stderr})
		if err != nil {
			return err
		}
		ends = append(ends, c.Close)
		setting.Cluster = c
		if setting.Manager, err = play.NewManager(ctx, c, clustertest.Reference(), os.Args[0], asKCM+"=1"); err != nil {
			return err
		}
		said, end, err := setting.RunLoops()
		if err == nil {
			log, ends = said, append(ends, end)
		}
		return err
	})
	clustertest.Run(m, func(code int) (err error) {
		for _, end := range slices.Backward(ends) {
			err = errors.Join(err, end())
		}
		if code != 0 && err == nil && log != nil {
			fmt.Fprintf(os.Stderr, "the last lines of the controller manager's log:\n%s\n", process.LastLines(log.String(), 40))
		}
		return err
	})
}

// Ready returns when the setting of [Main] has its cluster and its manager. With -short it skips the test.
func Ready(t testing.TB) {
	t.Helper()
	clustertest.SkipIfShort(t)
	if err := ready(); err != nil {
		t.Fatal(err)
	}
}

// ready is [Main]'s.
var ready func() error
