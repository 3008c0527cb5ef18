package refusals

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestARefusalStandsForWhatHadComeWhenItWasAskedFor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour string
		happens   func(m *Memory)
		stands    bool
	}{
		{"nothing was asked", func(*Memory) {}, false},
		{"a refusal stands for who has asked", func(m *Memory) {
			m.Came("a")
			m.Refused("may x", m.Now())
		}, true},
		{"it stands for who had come and not asked yet", func(m *Memory) {
			m.Came("a")
			m.Came("b")
			m.Refused("may x", m.Now())
		}, true},
		{"it does not stand for who comes while it is asked for", func(m *Memory) {
			since := m.Now()
			m.Came("a")
			m.Refused("may x", since)
		}, false},
		{"it does not stand for who comes under a name that was known", func(m *Memory) {
			m.Came("a")
			m.Refused("may x", m.Now())
			m.Went("a")
			m.Came("a")
		}, false},
		{"another's coming does not matter", func(m *Memory) {
			m.Came("a")
			m.Refused("may x", m.Now())
			m.Came("b")
		}, true},
		{"it does not stand when somebody has been given a right", func(m *Memory) {
			m.Came("a")
			m.Refused("may x", m.Now())
			m.Given()
		}, false},
		{"nor if that was while it was asked for", func(m *Memory) {
			m.Came("a")
			since := m.Now()
			m.Given()
			m.Refused("may x", since)
		}, false},
		{"an answer from before does not replace one from after", func(m *Memory) {
			m.Came("a")
			since := m.Now()
			m.Given()
			m.Refused("may x", m.Now())
			m.Refused("may x", since)
		}, true},
		{"another question is another matter", func(m *Memory) {
			m.Came("a")
			m.Refused("may y", m.Now())
		}, false},
		{"it stands until it is time", func(m *Memory) {
			m.Came("a")
			m.Refused("may x", m.Now())
			time.Sleep(199 * time.Millisecond)
		}, true},
		{"it does not stand when it is time", func(m *Memory) {
			m.Came("a")
			m.Refused("may x", m.Now())
			time.Sleep(200 * time.Millisecond)
		}, false},
		{"when it is time one asks, and the others wait", func(m *Memory) {
			m.Came("a")
			m.Came("b")
			m.Refused("may x", m.Now())
			time.Sleep(200 * time.Millisecond)
			m.Left("b", "may x")
		}, true},
		{"they do not wait for long", func(m *Memory) {
			m.Came("a")
			m.Came("b")
			m.Refused("may x", m.Now())
			time.Sleep(200 * time.Millisecond)
			m.Left("b", "may x")
			time.Sleep(200 * time.Millisecond)
		}, false},
		{"when it is repeated it stands for twice as long", func(m *Memory) {
			m.Came("a")
			m.Refused("may x", m.Now())
			time.Sleep(200 * time.Millisecond)
			m.Refused("may x", m.Now())
			time.Sleep(399 * time.Millisecond)
		}, true},
		{"when it is repeated before the time it stands for no longer", func(m *Memory) {
			m.Came("a")
			m.Refused("may x", m.Now())
			m.Refused("may x", m.Now())
			time.Sleep(200 * time.Millisecond)
		}, false},
		{"a right that was given has it begin anew", func(m *Memory) {
			m.Came("a")
			for range 10 {
				m.Refused("may x", m.Now())
				time.Sleep(m.Left("a", "may x"))
			}
			m.Given()
			m.Refused("may x", m.Now())
			time.Sleep(200 * time.Millisecond)
		}, false},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := New()
				test.happens(m)
				assert.Equal(t, test.stands, m.Left("a", "may x") > 0, "whether the refusal of x stands for a")
			})
		})
	}
}

func TestWhatNobodyAsksForAnyMoreIsForgotten(t *testing.T) { // not parallel: it measures the heap
	t.Run("what nobody asks about for long begins anew", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := New()
			m.Came("a")
			for range 10 {
				m.Refused("may x", m.Now())
				time.Sleep(m.Left("a", "may x"))
			}
			time.Sleep(time.Hour)
			m.Refused("may x", m.Now())
			time.Sleep(200 * time.Millisecond)
			assert.False(t, m.Left("a", "may x") > 0, "whether the refusal of x stands for a, 200 ms after it was asked about for the first time in an hour")
		})
	})
	t.Run("what nobody asks about for long takes no memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, before := New(), heap()
			for i := range 20_000 {
				name := fmt.Sprintf("%01000d", i)
				m.Came(name)
				m.Refused("may "+name, m.Now())
				m.Went(name)
			}
			time.Sleep(time.Hour)
			m.Refused("may x", m.Now())
			assert.Less(t, heap()-before, 5<<20, "bytes, an hour after 20,000 users with long names have asked for the last time")
			runtime.KeepAlive(m)
		})
	})
}

func heap() int {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
