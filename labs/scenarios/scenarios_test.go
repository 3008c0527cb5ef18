package scenarios

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/process"
)

// How many scenarios run at the same time.
const parallelScenarios = "8"

// lab is the cluster that all scenarios share.
var lab *cluster.Cluster

func TestMain(m *testing.M) {
	if os.Getenv(runManagerVariable) != "" {
		runManager()
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
	if lab, err = cluster.Start(ctx, cluster.WithProgress(os.Stderr)); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	// A kind cluster does not end by itself when Ctrl-C ends the tests.
	defer context.AfterFunc(ctx, func() {
		lab.Close()
		os.Exit(1)
	})()
	loops, err := startManager(loops, "--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=2000")
	if err != nil {
		return 1, err
	}
	// Scenarios wait for the cluster most of the time, not for a processor. A -parallel on the command line comes later and wins.
	if err := flag.Set("test.parallel", parallelScenarios); err != nil {
		panic(err)
	}
	code = m.Run()
	if !loops.Running() {
		return 1, fmt.Errorf("the controller manager has ended during the scenarios:\n%s", loops.Log)
	}
	loops.Kill()
	if code != 0 {
		fmt.Fprintf(os.Stderr, "the last lines of the controller manager's log:\n%s\n", process.LastLines(loops.Log.String(), 40))
	}
	return code, nil
}

// Scenarios in replication/ are about two kinds. What is about one of them is
// in a folder of its own.
var kinds = []struct{ kind, resource, component string }{
	{"replicaset", "replicasets", "replicaset-controller"},
	{"replicationcontroller", "replicationcontrollers", "replication-controller"},
}

func TestScenarios(t *testing.T) {
	// The go command sees only here that a result depends on these, and must not show one manager's for the other's.
	t.Logf("with the original: %v; on kind: %v", reference(), cluster.OnKind())
	for _, dir := range []string{"deployment", "serviceaccount", "manager"} {
		t.Run(dir, func(t *testing.T) { run(t, dir) })
	}
	for _, kind := range kinds {
		variables := []string{"KIND=" + kind.kind, "RESOURCE=" + kind.resource, "COMPONENT=" + kind.component}
		t.Run(filepath.Join("replication", kind.kind), func(t *testing.T) { run(t, "replication", variables...) })
		t.Run(kind.kind, func(t *testing.T) { run(t, kind.kind, variables...) })
	}
}

// run runs the scenarios of a folder, with variables for their lines.
func run(t *testing.T, dir string, variables ...string) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, variables...)
			return setUp(env)
		},
		Cmds: verbs,
		Condition: func(name string) (bool, error) {
			switch name {
			case "kind":
				return cluster.OnKind(), nil
			case "reference":
				return reference(), nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		RequireUniqueNames: true,
	})
}
