package replication

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"
)

// version is a cache that is as far as it says.
type version string

func (v *version) LastStoreSyncResourceVersion() string { return string(*v) }

func TestOwnWritesHoldASetBackUntilTheCacheHasThem(t *testing.T) {
	t.Parallel()
	web, other := cache.NewObjectName("ns", "web"), cache.NewObjectName("ns", "other")
	cached := version("90")
	writes := newOwnWrites(corev1.Resource("pods"), &cached)
	assert.NoError(t, writes.observed(web))

	writes.wrote(web, "100")
	writes.wrote(web, "99") // answers come in any order
	assert.EqualError(t, writes.observed(web), "the cache is behind: it is at version 90, and ns/web has written version 100")
	assert.NoError(t, writes.observed(other))

	cached = "99"
	assert.Error(t, writes.observed(web))
	cached = "100"
	assert.NoError(t, writes.observed(web))

	writes.wrote(web, "200")
	writes.forget(web)
	assert.NoError(t, writes.observed(web))
}

func TestOwnWritesDoNotWaitForACacheThatCannotTell(t *testing.T) {
	t.Parallel()
	cached := version("")
	writes := newOwnWrites(corev1.Resource("pods"), &cached)
	writes.wrote(cache.NewObjectName("ns", "web"), "100")
	assert.NoError(t, writes.observed(cache.NewObjectName("ns", "web")))
}

func TestASyncThatIsPutOffIsCountedByWhatTheCacheLacks(t *testing.T) {
	t.Parallel()
	registerMetrics()
	cached := version("90")
	writes := newOwnWrites(schema.GroupResource{Group: "apps", Resource: "testsets"}, &cached)
	before := skips(t, "apps", "testsets") // the counter is the process's, and tests may run several times
	writes.wrote(cache.NewObjectName("ns", "web"), "100")
	assert.Error(t, writes.observed(cache.NewObjectName("ns", "web")))
	assert.NoError(t, writes.observed(cache.NewObjectName("ns", "other")))
	assert.EqualValues(t, before+1, skips(t, "apps", "testsets"))
}

// skips returns how many syncs were put off so far.
func skips(t *testing.T, group, resource string) float64 {
	value, err := testutil.GetCounterMetricValue(staleSyncSkips.WithLabelValues(group, resource))
	assert.NoError(t, err)
	return value
}
