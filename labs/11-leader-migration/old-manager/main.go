// Command old-manager is a controller manager as they were until 1.30: with the
// loops of Kubernetes, and those of a cloud, in one process. It is kcm, but for
// one import.
package main

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // leader_election_* metrics

	"github.com/kcm-book/kcm-book/kcm/app"
	_ "github.com/kcm-book/kcm-book/labs/11-leader-migration/cloud" // --cloud-provider=lab
)

func main() {
	if err := cli.RunNoErrOutput(app.NewControllerManagerCommand()); err != nil {
		fmt.Fprintln(os.Stderr, "old-manager:", err)
		os.Exit(1)
	}
}
