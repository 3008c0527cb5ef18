// Package scenarios says what a controller manager does. Each scenario is a script
// ([github.com/kcm-book/kcm-book/labs/play]) whose name is the sentence that it proves, and that any manager must pass:
// kcm, and with REFERENCE=1 in the environment the original kube-controller-manager, on the embedded cluster or with
// CLUSTER=kind on a kind cluster. `make compare` plays them with both and shows the results side by side.
//
// The scenarios in replication/ run twice, with $KIND, $RESOURCE and $COMPONENT set for ReplicaSets and for
// ReplicationControllers; what is about one of the two is in the folder of its name. A folder for another loop needs no
// more than to be there.
package scenarios

import (
	"path/filepath"
	"slices"
	"strings"
)

// Scenario is a script, and what its lines may call what it is about.
type Scenario struct {
	// Name is the folder and the sentence, with hyphens for spaces.
	Name string
	Path string
	// Variables are NAME=VALUE.
	Variables []string
}

// aboutBoth are the kinds that the scenarios in replication/ are about.
var aboutBoth = map[string][]string{
	"replicaset": {"KIND=replicaset", "RESOURCE=replicasets", "COMPONENT=replicaset-controller"},
	"replicationcontroller": {
		"KIND=replicationcontroller", "RESOURCE=replicationcontrollers", "COMPONENT=replication-controller"},
}

// All returns the scenarios in the folders of dir, sorted by name.
func All(dir string) (all []Scenario) {
	paths, _ := filepath.Glob(filepath.Join(dir, "*", "*.txtar")) // the pattern is well-formed
	for _, path := range paths {
		folder, sentence := filepath.Base(filepath.Dir(path)), strings.TrimSuffix(filepath.Base(path), ".txtar")
		if folder != "replication" {
			all = append(all, Scenario{folder + "/" + sentence, path, aboutBoth[folder]})
			continue
		}
		for kind, variables := range aboutBoth {
			all = append(all, Scenario{folder + "/" + kind + "/" + sentence, path, variables})
		}
	}
	slices.SortFunc(all, func(a, b Scenario) int { return strings.Compare(a.Name, b.Name) })
	return all
}
