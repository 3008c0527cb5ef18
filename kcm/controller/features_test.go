package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/util/feature"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/component-base/featuregate"
)

// gatesOf returns gates of its own for a test, which behave like those of an
// emulated version.
func gatesOf(t *testing.T, emulated string) featuregate.MutableVersionedFeatureGate {
	t.Helper()
	gates := feature.DefaultMutableFeatureGate.DeepCopy()
	require.NoError(t, gates.SetEmulationVersion(version.MustParse(emulated)))
	return gates
}

func TestGatesHaveTheDefaultsOfTheVersionThatIsEmulated(t *testing.T) {
	t.Parallel()
	for emulated, want := range map[string]bool{"1.33": false, "1.34": false, "1.35": true, "1.36": true} {
		assert.Equal(t, want, gatesOf(t, emulated).Enabled(DeploymentReplicaSetTerminatingReplicas), emulated)
	}
}

func TestGatesThatCannotBeSetAreRefused(t *testing.T) {
	t.Parallel()
	assert.ErrorContains(t, gatesOf(t, "1.36").Set("GangScheduling=true"), "depends on features that are disabled")
	assert.ErrorContains(t, gatesOf(t, "1.36").Set("NoSuchGate=true"), "unrecognized feature gate: NoSuchGate")
	assert.ErrorContains(t, gatesOf(t, "1.36").Set("RetryGenerateName=false"), "feature is locked to true")
	assert.ErrorContains(t, gatesOf(t, "1.34").Set("StaleControllerConsistencyReplicaSet=false"), "PreAlpha at emulated version 1.34")
}

func TestClientGoAsksTheGatesOfTheFlag(t *testing.T) {
	t.Parallel()
	gates := gatesOf(t, "1.36")
	require.NoError(t, gates.Set("WatchListClient=false"))
	assert.False(t, clientGates{gates}.Enabled(clientfeatures.WatchListClient))
	assert.NotPanics(t, func() { clientfeatures.FeatureGates().Enabled("PodDeletionCost") }, "client-go's own gates do not know this one")
}
