package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/tools/cache"
)

// cacheAt is a cache that is as far as it says.
type cacheAt string

func (v *cacheAt) LastStoreSyncResourceVersion() string { return string(*v) }

func TestOwnWritesHoldAnObjectBackUntilTheCacheHasThem(t *testing.T) {
	t.Parallel()
	web, other := cache.NewObjectName("ns", "web"), cache.NewObjectName("ns", "other")
	cached := cacheAt("90")
	writes := NewOwnWrites(&cached)
	assert.NoError(t, writes.Observed(web))

	writes.Wrote(web, "100")
	writes.Wrote(web, "99") // answers come in any order
	assert.EqualError(t, writes.Observed(web), "the cache is behind: it is at version 90, and ns/web has written version 100")
	assert.NoError(t, writes.Observed(other))

	cached = "99"
	assert.ErrorIs(t, writes.Observed(web), ErrStaleCache)
	cached = "100"
	assert.NoError(t, writes.Observed(web))

	writes.Wrote(web, "200")
	writes.Forget(web)
	assert.NoError(t, writes.Observed(web))
}

func TestOwnWritesDoNotWaitForACacheThatCannotTell(t *testing.T) {
	t.Parallel()
	cached := cacheAt("")
	writes := NewOwnWrites(&cached)
	writes.Wrote(cache.NewObjectName("ns", "web"), "100")
	assert.NoError(t, writes.Observed(cache.NewObjectName("ns", "web")))
}
