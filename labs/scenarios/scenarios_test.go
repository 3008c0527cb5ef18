package scenarios

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

// lab is the cluster that all scenarios share.
var lab cluster.Cluster

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
	ctx := context.Background()
	if lab, err = cluster.Start(ctx, cluster.WithProgress(os.Stderr)); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	loops, err := startManager(loops, "--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=2000")
	if err != nil {
		return 1, err
	}
	code = m.Run()
	if loops.hasEnded() {
		return 1, fmt.Errorf("the controller manager has ended during the scenarios:\n%s", loops.log)
	}
	loops.kill()
	if code != 0 {
		fmt.Fprintf(os.Stderr, "the last lines of the controller manager's log:\n%s\n", loops.log.tail(40))
	}
	return code, nil
}

// Scenarios in replication/ are about two kinds.
var kinds = []struct{ kind, resource, component string }{
	{"replicaset", "replicasets", "replicaset-controller"},
	{"replicationcontroller", "replicationcontrollers", "replication-controller"},
}

func TestScenarios(t *testing.T) {
	for _, dir := range []string{"deployment", "serviceaccount", "manager"} {
		t.Run(dir, func(t *testing.T) { run(t, dir) })
	}
	for _, kind := range kinds {
		t.Run(filepath.Join("replication", kind.kind), func(t *testing.T) {
			run(t, "replication", "KIND="+kind.kind, "RESOURCE="+kind.resource, "COMPONENT="+kind.component)
		})
	}
}

// run runs the scenarios of a folder, with variables for their lines.
func run(t *testing.T, dir string, variables ...string) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, variables...)
			return setUp(env, t.Name())
		},
		Cmds: verbs,
		Condition: func(name string) (bool, error) {
			switch name {
			case "kind":
				return onKind(), nil
			case "reference":
				return reference(), nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		RequireUniqueNames: true,
	})
}
