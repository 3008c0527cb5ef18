package replication

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/tools/cache"
)

// version is a cache that is as far as it says.
type version string

func (v *version) LastStoreSyncResourceVersion() string { return string(*v) }

func TestOwnWritesHoldASetBackUntilTheCacheHasThem(t *testing.T) {
	t.Parallel()
	web, other := cache.NewObjectName("ns", "web"), cache.NewObjectName("ns", "other")
	cached := version("90")
	writes := newOwnWrites(&cached)
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
	writes := newOwnWrites(&cached)
	writes.wrote(cache.NewObjectName("ns", "web"), "100")
	assert.NoError(t, writes.observed(cache.NewObjectName("ns", "web")))
}
