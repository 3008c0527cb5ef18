package replication

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"
)

// version is a cache that is as far as it says.
type version string

func (v *version) LastStoreSyncResourceVersion() string { return string(*v) }

func TestASyncThatIsPutOffIsCountedByWhatTheCacheLacks(t *testing.T) {
	t.Parallel()
	registerMetrics()
	cached := version("90")
	writes := newOwnWrites(schema.GroupResource{Group: "apps", Resource: "testsets"}, &cached)
	before := skips(t, "apps", "testsets") // the counter is the process's, and tests may run several times
	writes.Wrote(cache.NewObjectName("ns", "web"), "100")
	assert.Error(t, writes.Observed(cache.NewObjectName("ns", "web")))
	assert.NoError(t, writes.Observed(cache.NewObjectName("ns", "other")))
	assert.EqualValues(t, before+1, skips(t, "apps", "testsets"))
}

// skips returns how many syncs were put off so far.
func skips(t *testing.T, group, resource string) float64 {
	value, err := testutil.GetCounterMetricValue(staleSyncSkips.WithLabelValues(group, resource))
	assert.NoError(t, err)
	return value
}
