package replication

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// calls counts what slowStart does with a create that takes the given times
// and fails when told.
type calls struct {
	mu                sync.Mutex
	launched, running int
	succeeded, failed int
	outsideWindow     bool
}

func (c *calls) create(took func(call int) time.Duration, fails func(call int) bool) error {
	c.mu.Lock()
	call := c.launched
	c.launched++
	c.running++
	c.outsideWindow = c.outsideWindow || c.running > c.succeeded+1
	c.mu.Unlock()

	time.Sleep(took(call))

	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if fails(call) {
		c.failed++
		return errors.New("refused")
	}
	c.succeeded++
	return nil
}

func TestSlowStart(t *testing.T) {
	t.Parallel()
	second := func(int) time.Duration { return time.Second }
	never := func(int) bool { return false }
	tests := map[string]struct {
		count             int
		fails             func(int) bool
		created, launched int
		took              time.Duration
	}{
		"nothing to create calls nothing":          {count: 0, fails: never},
		"one is one call":                          {count: 1, fails: never, created: 1, launched: 1, took: time.Second},
		"the window doubles with every round trip": {count: 127, fails: never, created: 127, launched: 127, took: 7 * time.Second},
		"the first refusal ends it":                {count: 100, fails: func(int) bool { return true }, launched: 1, took: time.Second},
		"a refusal later wastes at most one call more than succeeded": {
			count: 100, fails: func(call int) bool { return call >= 3 }, created: 3, launched: 7, took: 3 * time.Second,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var c calls
				start := time.Now()
				created, err := slowStart(tt.count, func() error { return c.create(second, tt.fails) })
				assert.Equal(t, tt.created, created)
				assert.Equal(t, tt.launched, c.launched)
				assert.Equal(t, tt.took, time.Since(start))
				assert.Equal(t, tt.created == tt.count, err == nil)
			})
		})
	}
}

func TestSlowStartDoesNotWaitForTheSlowestOfABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c calls
		start := time.Now()
		slow := func(call int) time.Duration {
			if call == 1 {
				return time.Minute
			}
			return time.Second
		}
		created, err := slowStart(100, func() error { return c.create(slow, func(int) bool { return false }) })
		assert.NoError(t, err)
		assert.Equal(t, 100, created)
		assert.Equal(t, time.Second+time.Minute, time.Since(start), "the others were done long before")
	})
}

// However long calls take and whichever fail: calls never exceed the window,
// all are made while none fails, and after the first failure at most one more
// has failed than had succeeded.
func TestSlowStartKeepsItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		count := rapid.IntRange(0, 80).Draw(rt, "count")
		seconds := rapid.SliceOfN(rapid.IntRange(1, 50), count, count).Draw(rt, "seconds")
		// Refused from a call on, as by a quota, or here and there.
		quota := rapid.IntRange(0, 100).Draw(rt, "quota")
		flaky := rapid.SliceOfN(rapid.IntRange(0, 30), count, count).Draw(rt, "flaky")
		took := func(call int) time.Duration { return time.Duration(seconds[call]) * time.Second }
		fails := func(call int) bool { return call >= quota || flaky[call] == 0 }

		var c calls
		var created int
		var err error
		synctest.Test(t, func(*testing.T) {
			created, err = slowStart(count, func() error { return c.create(took, fails) })
		})
		assert.Equal(rt, c.succeeded, created)
		assert.Zero(rt, c.running, "all calls have returned")
		assert.False(rt, c.outsideWindow)
		assert.LessOrEqual(rt, c.failed, c.succeeded+1)
		if err == nil {
			assert.Equal(rt, count, created)
		} else {
			assert.Positive(rt, c.failed)
		}
	})
}
