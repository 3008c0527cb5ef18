package controller

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSeconds(t *testing.T) {
	t.Parallel()
	const century = 100 * 365 * 24 * time.Hour
	assert.Zero(t, Seconds(0))
	assert.Equal(t, 90*time.Second, Seconds(90))
	assert.Equal(t, -90*time.Second, Seconds(-90))
	for _, many := range []int64{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 2, 1 << 40, 9223372037} {
		assert.Greater(t, Seconds(many), 2*century, "%d seconds", many)
		assert.Less(t, Seconds(-many), -2*century, "%d seconds", -many)
	}
	assert.Less(t, Seconds(math.MinInt64), -2*century)
}
