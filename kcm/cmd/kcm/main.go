// Command kcm is a Kubernetes controller manager. It can run in place of
// kube-controller-manager for the controllers that it knows.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	_ "time/tzdata" // the time zones of CronJobs, where the machine has none

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // rest_client_* and leader_election_* metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info metric

	"github.com/kcm-book/kcm-book/kcm/app"
)

// gcPercent is by how much the heap may grow between garbage collections. Most
// of it are the caches, which stay, so with the default of 100 the garbage takes
// as much memory as they do. GOGC in the environment wins.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if err := cli.RunNoErrOutput(app.NewControllerManagerCommand()); err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(os.Stderr, "kcm:", strings.TrimSpace(line))
		}
		os.Exit(1)
	}
}
