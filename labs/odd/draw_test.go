package odd

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASeedAlwaysDrawsTheSame(t *testing.T) {
	t.Parallel()
	asJSON := func(seed uint64) string {
		text, err := json.Marshal(Draw(seed))
		require.NoError(t, err)
		return string(text)
	}
	for seed := range uint64(20) {
		require.Equal(t, asJSON(seed), asJSON(seed))
	}
	require.NotEqual(t, asJSON(7), asJSON(8))
}

func TestEveryKindIsDrawnAndAllThatIsDoneToIt(t *testing.T) {
	t.Parallel()
	drawn := map[string]int{}
	for seed := range uint64(30) {
		for i, op := range Draw(seed) {
			require.Equal(t, i+1, op.Number)
			drawn[op.Verb+" "+op.Kind.String()]++
		}
	}
	for _, k := range vocabulary.Kinds {
		assert.NotZero(t, drawn["create "+k.String()], k)
		assert.NotZero(t, drawn["patch "+k.String()], k)
		assert.NotZero(t, drawn["delete "+k.String()], k)
	}
	assert.NotZero(t, drawn["approval certificatesigningrequests.certificates.k8s.io"])
	for _, kind := range []string{"pods", "deployments.apps", "jobs.batch", "nodes", "namespaces", "resourcequotas"} {
		assert.NotZero(t, drawn["status "+kind], kind)
	}
}
