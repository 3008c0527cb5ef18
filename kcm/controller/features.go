package controller

import (
	_ "embed"

	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/util/feature"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/yaml"
)

// Feature gates of Kubernetes that more than one loop asks for.
const (
	// DeploymentReplicaSetTerminatingReplicas has ReplicaSets and Deployments count
	// the pods that are being deleted (https://kep.k8s.io/3973).
	DeploymentReplicaSetTerminatingReplicas featuregate.Feature = "DeploymentReplicaSetTerminatingReplicas"
	// TaintTolerationComparisonOperators lets tolerations compare numbers
	// (https://kep.k8s.io/5471).
	TaintTolerationComparisonOperators featuregate.Feature = "TaintTolerationComparisonOperators"
)

//go:embed gates.yaml
var gatesYAML []byte

// addGates makes all feature gates of Kubernetes known, whether a loop of kcm
// asks for them or not, and has client-go ask the same ones.
func addGates(known featuregate.MutableVersionedFeatureGate) error {
	var table struct {
		Gates map[featuregate.Feature][]struct {
			featuregate.FeatureSpec
			Version string
		}
		Dependencies map[featuregate.Feature][]featuregate.Feature
	}
	if err := yaml.UnmarshalStrict(gatesYAML, &table); err != nil {
		return err
	}
	gates := map[featuregate.Feature]featuregate.VersionedSpecs{}
	for name, stages := range table.Gates {
		for _, stage := range stages {
			stage.FeatureSpec.Version = version.MustParse(stage.Version)
			gates[name] = append(gates[name], stage.FeatureSpec)
		}
	}
	if err := known.AddVersioned(gates); err != nil {
		return err
	}
	clientfeatures.ReplaceFeatureGates(clientGates{known})
	return known.AddDependencies(table.Dependencies)
}

// clientGates are the gates as client-go asks for them. Without it client-go
// goes by variables of the environment, and --feature-gates by nothing.
type clientGates struct{ featuregate.FeatureGate }

// Enabled implements [clientfeatures.Gates].
func (g clientGates) Enabled(name clientfeatures.Feature) bool {
	return g.FeatureGate.Enabled(featuregate.Feature(name))
}

func init() { runtime.Must(addGates(feature.DefaultMutableFeatureGate)) }
