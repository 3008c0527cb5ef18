package controller

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// creations counts what SlowStart does with a create that takes the given times
// and fails when told.
type creations struct {
	mu                sync.Mutex
	launched, running int
	succeeded, failed int
	outsideWindow     bool
}

func (c *creations) create(took func(call int) time.Duration, fails func(call int) bool) error {
	c.mu.Lock()
	c.launched++
	call := c.launched
	c.running++
	c.outsideWindow = c.outsideWindow || c.running > c.succeeded-c.failed+1
	c.mu.Unlock()

	time.Sleep(took(call))

	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if fails(call) {
		c.failed++
		return fmt.Errorf("call %d was refused", call)
	}
	c.succeeded++
	return nil
}

// returned says what SlowStart returned, how often it had called create, and
// after which time.
func (c *creations) returned(created int, err error, took time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := fmt.Sprintf("%d created with %d calls in %s", created, c.launched, took)
	if err != nil {
		text += ", " + err.Error()
	}
	if c.running > 0 {
		text += fmt.Sprintf(", %d calls still running", c.running)
	}
	return text
}

// Time is that of a synctest bubble: calls take exactly as long as they say.
//
//exercise:race
func TestSlowStart(t *testing.T) {
	t.Parallel()
	second := func(int) time.Duration { return time.Second }
	never := func(int) bool { return false }
	tests := map[string]struct {
		count int
		took  func(call int) time.Duration
		fails func(call int) bool
		want  string
	}{
		"for nothing to create nothing is called": {
			count: 0, took: second, fails: never, want: "0 created with 0 calls in 0s",
		},
		"one pod is one call": {
			count: 1, took: second, fails: never, want: "1 created with 1 calls in 1s",
		},
		"the window doubles with every round trip": {
			count: 127, took: second, fails: never, want: "127 created with 127 calls in 7s",
		},
		"a first call that is refused is the only one": {
			count: 100, took: second, fails: func(int) bool { return true }, want: "0 created with 1 calls in 1s, call 1 was refused",
		},
		"a refusal costs one place of the window, and the others are created": {
			count: 100,
			took: func(call int) time.Duration {
				return map[int]time.Duration{2: time.Second, 3: 5 * time.Second}[call] + time.Second
			},
			fails: func(call int) bool { return call == 2 },
			want:  "99 created with 100 calls in 13s, call 2 was refused",
		},
		"when several are refused the first refusal is returned": {
			count: 100,
			took:  func(call int) time.Duration { return time.Duration(10-call) * time.Second },
			fails: func(call int) bool { return call >= 2 },
			want:  "1 created with 3 calls in 17s, call 3 was refused",
		},
		"a refusal wastes at most one call more than have succeeded": {
			count: 100,
			took: func(call int) time.Duration {
				if call > 3 {
					return time.Duration(call) * time.Second
				}
				return time.Second
			},
			fails: func(call int) bool { return call > 3 },
			want:  "3 created with 7 calls in 9s, call 4 was refused",
		},
		"one slow call holds up no other": {
			count: 100,
			took: func(call int) time.Duration {
				if call == 2 {
					return time.Minute
				}
				return time.Second
			},
			fails: never, want: "100 created with 100 calls in 1m1s",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var c creations
				start := time.Now()
				created, err := SlowStart(tt.count, func(int) error { return c.create(tt.took, tt.fails) })
				seen := c.returned(created, err, time.Since(start))
				time.Sleep(time.Hour) // calls that were left behind end within the bubble
				assert.Equal(t, tt.want, seen, "%d pods are wanted", tt.count)
			})
		})
	}

	t.Run("each call has a number of its own, from 0 on", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			called := make(chan int, 10)
			_, err := SlowStart(5, func(i int) error {
				called <- i
				time.Sleep(time.Second)
				return nil
			})
			close(called)
			assert.NoError(t, err)
			var numbers []int
			for i := range called {
				numbers = append(numbers, i)
			}
			slices.Sort(numbers)
			assert.Equal(t, []int{0, 1, 2, 3, 4}, numbers, "5 pods are wanted")
		})
	})
}

func TestSlowStartKeepsItsBounds(t *testing.T) {
	t.Parallel()
	t.Run("however long calls take and whichever fail, no more run than the window allows and all are counted", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(rt *rapid.T) {
			count := rapid.IntRange(0, 80).Draw(rt, "count")
			seconds := rapid.SliceOfN(rapid.IntRange(1, 50), count, count).Draw(rt, "seconds")
			// Refused from a call on, as by a quota, or here and there.
			quota := rapid.IntRange(0, 100).Draw(rt, "quota")
			flaky := rapid.SliceOfN(rapid.IntRange(0, 30), count, count).Draw(rt, "flaky")
			took := func(call int) time.Duration { return time.Duration(seconds[call-1]) * time.Second }
			fails := func(call int) bool { return call > quota || flaky[call-1] == 0 }

			var c creations
			var created int
			var err error
			synctest.Test(t, func(*testing.T) {
				created, err = SlowStart(count, func(int) error { return c.create(took, fails) })
				time.Sleep(time.Hour) // as above
			})
			assert.Equal(rt, c.succeeded, created, "how many have succeeded, and how many it says")
			assert.False(rt, c.outsideWindow, "more calls ran at the same time than one, plus one for each success, less one for each failure")
			assert.LessOrEqual(rt, c.failed, c.succeeded+1, "failures, and successes plus one")
			assert.Equal(rt, c.failed > 0, err != nil, "it tells of a failure, and %d calls have failed", c.failed)
			if c.launched < count {
				assert.Equal(rt, c.succeeded+1, c.failed, "failures of %d calls, when others are not made any more", c.launched)
			}
		})
	})
}
