package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// story is what the syncs of one key return, one after the other, and how it is
// told. After its end they return what the last one did.
type story []error

var (
	errStale = fmt.Errorf("pod web-1 is not in the cache yet: %w", ErrStaleCache)
)

// fails is a story of so many failures.
func fails(times int) story {
	var s story
	for range times {
		s = append(s, errSync)
	}
	return s
}

// then adds an ending.
func (s story) then(more ...error) story { return append(s, more...) }

func (s story) at(call int) error { return s[min(call, len(s))-1] }

// logged is what a loop has logged.
type logged struct{ klog.Logger }

func newLogged() logged {
	return logged{ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true)))}
}

// errors says how many errors there are.
func (l logged) errors() string {
	n := 0
	for _, entry := range l.GetSink().(ktesting.Underlier).GetBuffer().Data() {
		if entry.Type == ktesting.LogError {
			n++
		}
	}
	return fmt.Sprintf("%d errors in the log", n)
}

// text is all that was logged.
func (l logged) text() string { return l.GetSink().(ktesting.Underlier).GetBuffer().String() }

// play runs a loop whose syncs go as the story says, in a bubble, while body adds
// keys, and returns the syncs and the errors in its log.
func play(t *testing.T, maxRetries int, s story, body func(loop *Loop[string])) (*calls, string) {
	t.Helper()
	seen, log := newCalls(), newLogged()
	sync := func(_ context.Context, key string) error {
		n := seen.note(key)
		if n > 500 {
			return nil // somebody tries again without a delay, and would do so for ever
		}
		return s.at(n)
	}
	runWith(klog.NewContext(t.Context(), log.Logger), 1, LoopConfig[string]{MaxRetries: maxRetries, Sync: sync}, body)
	return seen, log.errors()
}

// pauses tells how long after the first sync the others came: "0s, 5ms".
func pauses(seen *calls) string {
	var words []string
	for _, d := range seen.times[:min(len(seen.times), 12)] {
		words = append(words, d.String())
	}
	if len(seen.times) > 12 {
		words = append(words, fmt.Sprintf("and %d more", len(seen.times)-12))
	}
	return strings.Join(words, ", ")
}

func addAndWait(loop *Loop[string]) {
	loop.Add("web")
	time.Sleep(time.Hour)
}

//exercise:race
func TestWhatBecomesOfAKeyAfterItsSync(t *testing.T) {
	t.Parallel()
	for behaviour, test := range map[string]struct {
		maxRetries int
		syncs      story
		told       string
		at         string
	}{
		"what succeeds is not synced again":                     {RetryForever, story{nil}, "it succeeds", "0s"},
		"what fails is tried again after 5, 10, 20 and 40 ms":   {RetryForever, fails(4).then(nil), "it fails four times", "0s, 5ms, 15ms, 35ms, 75ms"},
		"what fails is tried again as often as MaxRetries says": {3, fails(4), "it always fails, and MaxRetries is 3", "0s, 5ms, 15ms, 35ms"},
		"what succeeds at the last retry was not given up":      {3, fails(3).then(nil), "it fails three times, and MaxRetries is 3", "0s, 5ms, 15ms, 35ms"},
		"what waits for the cache is tried again after a while": {RetryForever, story{errStale, errStale, nil}, "the cache is behind twice", "0s, 100ms, 200ms"},
		"what waits for the cache is not given up":              {1, story{errStale, errStale, errStale, errStale, nil}, "the cache is behind four times, and MaxRetries is 1", "0s, 100ms, 200ms, 400ms, 800ms"},
		"what waits for the cache waits each time for as long as it has waited already": {RetryForever, story{errStale},
			"the cache is always behind", "0s, 100ms, 200ms, 400ms, 800ms, 1.6s, 3.2s, 6.4s, 12.8s, 25.6s, 51.2s, 1m42.4s, and 5 more"},
		"waiting for the cache begins anew after a failure": {RetryForever, story{errStale, errStale, errStale, errSync, errStale, errStale, nil},
			"the cache is behind three times, it fails, and the cache is behind twice", "0s, 100ms, 200ms, 400ms, 405ms, 505ms, 605ms"},
		"waiting for the cache makes no later failure wait longer": {RetryForever, story{errStale, errStale, errStale, errSync, nil},
			"the cache is behind three times, and then it fails", "0s, 100ms, 200ms, 400ms, 405ms"},
		"waiting for the cache costs no retry": {1, story{errStale, errStale, errSync, nil},
			"the cache is behind twice, then it fails, and MaxRetries is 1", "0s, 100ms, 200ms, 205ms"},
		"a failure beside a late cache is a failure": {RetryForever, story{errors.Join(errStale, errSync), nil},
			"the cache is behind for one thing, and another has failed", "0s, 5ms"},
		"without retries a key that fails is given up at once": {0, fails(1), "it fails, and MaxRetries is 0", "0s"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				seen, _ := play(t, test.maxRetries, test.syncs, addAndWait)
				assert.Equal(t, "synced after "+test.at, "synced after "+pauses(seen), test.told)
			})
		})
	}
	t.Run("after a success the delays begin small again", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			seen, _ := play(t, RetryForever, story{errSync, errSync, nil, errSync, nil}, func(loop *Loop[string]) {
				addAndWait(loop)
				addAndWait(loop)
			})
			assert.Equal(t, "synced after 0s, 5ms, 15ms, 1h0m0s, 1h0m0.005s", "synced after "+pauses(seen),
				"it fails twice and succeeds; added again an hour later it fails once")
		})
	})
	t.Run("what wakes a key that fails makes its next try no later", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			seen, _ := play(t, RetryForever, fails(40), func(loop *Loop[string]) {
				for range 20 {
					loop.Add("web")
					time.Sleep(time.Millisecond)
				}
				time.Sleep(time.Hour)
			})
			assert.Contains(t, seen.times, 35*time.Millisecond, "it is woken every millisecond for 20 ms, and tried at 5, 15 and 35 ms, too: %v", seen.times)
			assert.Contains(t, seen.times, 75*time.Millisecond, "%v", seen.times)
		})
	})
	t.Run("what was given up has all its retries when it is added again", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			seen, _ := play(t, 2, fails(1), func(loop *Loop[string]) {
				addAndWait(loop)
				addAndWait(loop)
			})
			assert.Equal(t, "synced after 0s, 5ms, 15ms, 1h0m0s, 1h0m0.005s, 1h0m0.015s", "synced after "+pauses(seen),
				"it always fails, MaxRetries is 2, and it is added again an hour later")
		})
	})
	t.Run("without an end to the retries it is still tried after a day", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			seen, _ := play(t, RetryForever, fails(1), func(loop *Loop[string]) {
				loop.Add("web")
				time.Sleep(24 * time.Hour)
			})
			last := seen.times[len(seen.times)-1]
			assert.Greater(t, last, 23*time.Hour, "the last of %d tries came after %s, and the longest delay is 1000 s", len(seen.times), last)
		})
	})
	t.Run("a key that waits for its retry holds up no other", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			seen, _ := play(t, RetryForever, fails(1), func(loop *Loop[string]) {
				loop.Add("web")
				time.Sleep(time.Hour) // by now the next try is many minutes away
				loop.Add("db")
				synctest.Wait()
				loop.Add("web")
				synctest.Wait()
			})
			keys := seen.list()
			assert.Equal(t, "db, web", strings.Join(keys[len(keys)-2:], ", "), "web has failed for an hour; then db is added, and web again")
			assert.Equal(t, time.Hour, seen.times[len(keys)-2], "db has come at its time")
		})
	})
}

func TestWhatIsReported(t *testing.T) {
	t.Parallel()
	for behaviour, test := range map[string]struct {
		maxRetries int
		syncs      story
		told       string
		reports    int
	}{
		"a failure is reported each time where nobody gives up":      {RetryForever, fails(3).then(nil), "it fails three times", 3},
		"a success is not reported":                                  {RetryForever, story{nil}, "it succeeds", 0},
		"waiting for the cache is not reported":                      {RetryForever, story{errStale, errStale, nil}, "the cache is behind twice", 0},
		"a failure beside a late cache is reported":                  {RetryForever, story{errors.Join(errStale, errSync), nil}, "the cache is behind for one thing, and another has failed", 1},
		"where there is an end to the retries only that is reported": {3, fails(1), "it always fails, and MaxRetries is 3", 1},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, errors := play(t, test.maxRetries, test.syncs, addAndWait)
				assert.Equal(t, fmt.Sprintf("%d errors in the log", test.reports), errors, test.told)
			})
		})
	}
	t.Run("a sync that is cut short by the end of the loop is not reported", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			log := newLogged()
			runWith(klog.NewContext(t.Context(), log.Logger), 1, LoopConfig[string]{MaxRetries: RetryForever, Sync: func(ctx context.Context, key string) error {
				<-ctx.Done()
				return ctx.Err()
			}}, func(loop *Loop[string]) {
				loop.Add("web")
				synctest.Wait()
			})
			assert.Equal(t, "0 errors in the log", log.errors(), "the loop is stopped in the middle of a sync, which then fails")
		})
	})
}
