package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

func TestAMistypedClusterIsRefusedAndNeverTheEmbeddedOne(t *testing.T) {
	t.Setenv("CLUSTER", "knid")
	_, err := cluster.Start(t.Context(), cluster.Options{})
	require.EqualError(t, err, `CLUSTER is "knid": set it to embedded or kind, or to nothing, which means embedded`)
	require.False(t, cluster.OnKind())
}
