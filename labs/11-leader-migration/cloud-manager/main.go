// Command cloud-manager is the manager of the lab's cloud: the loops of a cloud,
// and one cloud for them to ask.
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
	if err := cli.RunNoErrOutput(app.NewCloudManagerCommand("cloud-manager")); err != nil {
		fmt.Fprintln(os.Stderr, "cloud-manager:", err)
		os.Exit(1)
	}
}
