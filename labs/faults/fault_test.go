package faults

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachRunOfAPlanHasANameThatIsReadAsThatRun(t *testing.T) {
	t.Parallel()
	without := map[string]*Result{}
	workloads, err := Workloads()
	require.NoError(t, err)
	for _, w := range workloads {
		r := &Result{Spec: Spec{Workload: w}, Writes: 3, First: []int{1, 3},
			Events: map[string]int{metadataPrefix + "pods": 2}}
		for _, resource := range w.Watched {
			r.Events[resource] = 2
		}
		without[w.Name] = r
	}
	plan := Plan(workloads, without)
	names := map[string]bool{}
	for _, spec := range plan {
		names[spec.String()] = true
		read, err := ParseSpec(spec.String(), workloads)
		require.NoError(t, err)
		require.Equal(t, spec.String(), read.String())
		require.Equal(t, spec.Fault, read.Fault)
	}
	require.Len(t, names, len(plan), "no run is planned twice")
	for name := range strings.FieldsSeq("rollout/stop/3 accounts/etcd/1 collect/late-metadata-pods/2 scale/older-pods/3") {
		require.Contains(t, names, name)
	}
	require.Contains(t, names, "rollout/policy-403/3")
	require.NotContains(t, names, "rollout/policy-403/2", "it would do the same as at write 1")
	require.NotContains(t, names, "namespace/freeze/1", "its Lease would go with the namespace")

	kinds := map[string]bool{}
	for _, spec := range plan[:3*len(Kinds)] {
		kinds[spec.Fault.Name] = true
	}
	require.Len(t, kinds, len(Kinds), "all kinds of faults are among the first")
}

func TestARunThatThereIsNotIsRefused(t *testing.T) {
	t.Parallel()
	workloads, err := Workloads()
	require.NoError(t, err)
	for _, name := range []string{
		"", "rollout", "rollout/stop", "rollout/stop/0", "rollout/nap/1", "picnic/stop/1", "rollout/late/x",
	} {
		_, err := ParseSpec(name, workloads)
		require.Error(t, err, name)
	}
}

func TestWritesOfOneVerbAndResourceAreOfOneKind(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"DELETE pods/a", "DELETE pods/b"} {
		require.Equal(t, "DELETE pods/", Write{What: what}.kind())
	}
	require.Equal(t, "POST pods", Write{What: "POST pods"}.kind())
	require.Equal(t, "PUT jobs//status", Write{What: "PUT jobs/web/status"}.kind())
}
