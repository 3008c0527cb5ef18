package app

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

func TestResyncPeriodsLieBetweenTheMinimumAndTwiceThatAndDiffer(t *testing.T) {
	t.Parallel()
	c := &config.ComponentConfig{}
	c.Generic.MinResyncPeriod.Duration = time.Hour
	period := resyncPeriod(c)
	seen := map[time.Duration]bool{}
	for range 100 {
		d := period()
		assert.GreaterOrEqual(t, d, time.Hour)
		assert.Less(t, d, 2*time.Hour)
		seen[d] = true
	}
	assert.Greater(t, len(seen), 90)
}

func TestALeaderIsReadyWhenItsCachesAreFilled(t *testing.T) {
	t.Parallel()
	check := &cachesFilled{}
	assert.NoError(t, check.Check(&http.Request{}), "a replica that waits to lead is ready to")

	c := testContext("*")
	pods := c.InformerFactory.Core().V1().Pods().Informer()
	check.leading(c)
	assert.Error(t, check.Check(&http.Request{}), "the informers are not started")

	c.InformerFactory.Start(t.Context().Done())
	close(c.InformersStarted)
	require.Eventually(t, pods.HasSynced, time.Minute, time.Millisecond)
	assert.NoError(t, check.Check(&http.Request{}))

	migrating := testContext("*")
	check.leading(migrating)
	assert.Error(t, check.Check(&http.Request{}), "the informers of the controllers that migrate are not started")
	close(migrating.InformersStarted)
	assert.NoError(t, check.Check(&http.Request{}))
}
