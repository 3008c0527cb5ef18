package deployment

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPercentagesRoundSurgeUpAndUnavailableDown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		replicas                   int32
		surge, unavailable         string
		wantSurge, wantUnavailable int32
	}{
		{10, "25%", "25%", 3, 2},
		{1, "25%", "25%", 1, 0},
		{3, "1", "0", 1, 0},
		{10, "100%", "100%", 10, 10},
		{2, "0", "1%", 0, 1},   // both zero: nothing could move
		{2, "0%", "25%", 0, 1}, // likewise
		{2, "0", "5", 0, 2},    // no more than there are
		{0, "2", "2", 2, 0},
		{0, "25%", "25%", 0, 0},
	} {
		surge, unavailable := bounds(rolling(tt.replicas, tt.surge, tt.unavailable))
		assert.Equal(t, tt.wantSurge, surge, "surge of %+v", tt)
		assert.Equal(t, tt.wantUnavailable, unavailable, "unavailable of %+v", tt)
	}
}

func TestOtherStrategiesHaveNoBounds(t *testing.T) {
	t.Parallel()
	d := recreating(3)
	assert.EqualValues(t, 3, maxTotal(d))
	assert.EqualValues(t, 3, minAvailable(d))
}
