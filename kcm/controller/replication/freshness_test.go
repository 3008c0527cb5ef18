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
	writes.Wrote(cache.NewObjectName("ns", "web"), "100")
	assert.Error(t, writes.Observed(cache.NewObjectName("ns", "web")))
	assert.NoError(t, writes.Observed(cache.NewObjectName("ns", "other")))
	skips, err := testutil.GetCounterMetricValue(staleSyncSkips.WithLabelValues("apps", "testsets"))
	assert.NoError(t, err)
	assert.EqualValues(t, 1, skips)
}
