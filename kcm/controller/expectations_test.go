package controller

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

func expectingOwner(uid types.UID) metav1.Object {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid}}
}

func newTestExpectations() (*Expectations, *testingclock.FakePassiveClock) {
	clock := testingclock.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return NewExpectations(clock), clock
}

// waits says whether an owner may act, and else what it waits for.
func waits(e *Expectations, owner metav1.Object) string {
	if e.Satisfied(owner) {
		return "may act"
	}
	var missing []string
	for _, pending := range e.Pending() {
		if pending.Owner != cache.MetaObjectToName(owner) {
			continue
		}
		if pending.Creations != 0 {
			missing = append(missing, fmt.Sprintf("creations: %d", pending.Creations))
		}
		for _, uid := range pending.Deletions {
			missing = append(missing, "deletion of "+string(uid))
		}
	}
	return "waits, " + strings.Join(missing, ", ")
}

func TestExpectations(t *testing.T) {
	t.Parallel()
	owner, recreated := expectingOwner("1"), expectingOwner("2")
	tests := map[string]struct {
		do   func(*Expectations)
		want string
	}{
		"an owner that expects nothing may act": {
			do:   func(*Expectations) {},
			want: "may act",
		},
		"every creation is waited for": {
			do: func(e *Expectations) {
				e.Expect(owner, 2)
				e.CreationObserved(owner)
			},
			want: "waits, creations: 1",
		},
		"the last creation ends the wait": {
			do: func(e *Expectations) {
				e.Expect(owner, 2)
				e.CreationObserved(owner)
				e.CreationObserved(owner)
			},
			want: "may act",
		},
		"a deletion that is notified twice is taken off once": {
			do: func(e *Expectations) {
				e.Expect(owner, 0, "a", "b")
				e.DeletionObserved(owner, "a")
				e.DeletionObserved(owner, "a")
			},
			want: "waits, deletion of b",
		},
		"the last deletion ends the wait": {
			do: func(e *Expectations) {
				e.Expect(owner, 0, "a", "b")
				e.DeletionObserved(owner, "b")
				e.DeletionObserved(owner, "a")
			},
			want: "may act",
		},
		"a deletion that nobody expected takes nothing off": {
			do: func(e *Expectations) {
				e.Expect(owner, 0, "a")
				e.DeletionObserved(owner, "other")
			},
			want: "waits, deletion of a",
		},
		"a creation that nobody expected takes nothing off": {
			do: func(e *Expectations) {
				e.Expect(owner, 0, "a")
				e.CreationObserved(owner)
			},
			want: "waits, deletion of a",
		},
		"one creation more than was expected does no harm": {
			do: func(e *Expectations) {
				e.Expect(owner, 1)
				e.CreationObserved(owner)
				e.CreationObserved(owner)
			},
			want: "may act",
		},
		"what was observed for an owner that expects nothing is not kept": {
			do: func(e *Expectations) {
				e.CreationObserved(owner)
				e.DeletionObserved(owner, "a")
				e.Expect(owner, 1, "a")
			},
			want: "waits, creations: 1, deletion of a",
		},
		"creations and deletions are both waited for": {
			do: func(e *Expectations) {
				e.Expect(owner, 1, "a")
				e.CreationObserved(owner)
			},
			want: "waits, deletion of a",
		},
		"what is expected now takes the place of what was expected before": {
			do: func(e *Expectations) {
				e.Expect(owner, 5, "a")
				e.Expect(owner, 0)
			},
			want: "may act",
		},
		"what an earlier owner of the name expected is not waited for": {
			do:   func(e *Expectations) { e.Expect(recreated, 1) },
			want: "may act",
		},
		"news of an earlier owner of the name takes nothing off": {
			do: func(e *Expectations) {
				e.Expect(owner, 1, "a")
				e.CreationObserved(recreated)
				e.DeletionObserved(recreated, "a")
			},
			want: "waits, creations: 1, deletion of a",
		},
		"an owner that is forgotten may act": {
			do: func(e *Expectations) {
				e.Expect(owner, 1)
				e.Forget(cache.ObjectName{Namespace: "default", Name: "web"})
			},
			want: "may act",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _ := newTestExpectations()
			tt.do(e)
			assert.Equal(t, tt.want, waits(e, owner))
		})
	}
}

func TestExpectationsRunOut(t *testing.T) {
	t.Parallel()
	owner := expectingOwner("1")
	const waiting = "waits, creations: 1"
	t.Run("for five minutes the owner waits", func(t *testing.T) {
		t.Parallel()
		e, clock := newTestExpectations()
		e.Expect(owner, 1)
		clock.SetTime(clock.Now().Add(5 * time.Minute))
		assert.Equal(t, waiting, waits(e, owner))
	})
	t.Run("after five minutes the owner may act on what it sees", func(t *testing.T) {
		t.Parallel()
		e, clock := newTestExpectations()
		e.Expect(owner, 1)
		clock.SetTime(clock.Now().Add(5*time.Minute + time.Second))
		assert.Equal(t, "may act", waits(e, owner))
	})
	t.Run("the five minutes begin with what was expected last", func(t *testing.T) {
		t.Parallel()
		e, clock := newTestExpectations()
		e.Expect(owner, 3)
		clock.SetTime(clock.Now().Add(4 * time.Minute))
		e.Expect(owner, 1)
		clock.SetTime(clock.Now().Add(4 * time.Minute))
		assert.Equal(t, waiting, waits(e, owner))
	})
}

func TestExpectationsOfSeveral(t *testing.T) {
	t.Parallel()
	t.Run("notifications that come at the same time are all counted", func(t *testing.T) {
		t.Parallel()
		e, _ := newTestExpectations()
		owner := expectingOwner("1")
		e.Expect(owner, 100, "last")
		var notifications sync.WaitGroup
		for range 100 {
			notifications.Go(func() { e.CreationObserved(owner) })
		}
		notifications.Wait()
		assert.Equal(t, "waits, deletion of last", waits(e, owner))
	})
	t.Run("one owner does not wait for what another expects", func(t *testing.T) {
		t.Parallel()
		e, _ := newTestExpectations()
		web, shop := expectingOwner("1"), expectingOwner("9")
		shop.SetName("shop")
		e.Expect(web, 1)
		e.CreationObserved(shop)
		assert.Equal(t, "may act", waits(e, shop))
		assert.Equal(t, "waits, creations: 1", waits(e, web))
	})
}

// Whatever comes in whatever order and however often: an owner may act exactly
// when each of its creations and deletions was observed.
func TestExpectationsInAnyOrder(t *testing.T) {
	t.Parallel()
	uids := []types.UID{"a", "b", "c", "d"}
	t.Run("in whatever order and however often they are told, the owner acts when all that it expected was told", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			e, _ := newTestExpectations()
			owner := expectingOwner("1")
			creations := rapid.IntRange(0, 3).Draw(t, "creations")
			deletions := rapid.SliceOfDistinct(rapid.SampledFrom(uids), rapid.ID).Draw(t, "deletions")
			e.Expect(owner, creations, deletions...)

			history := fmt.Sprintf("expected: %d creations and the deletions of %v; observed:", creations, deletions)
			created, gone := 0, map[types.UID]bool{}
			for range rapid.IntRange(0, 12).Draw(t, "notifications") {
				if rapid.Bool().Draw(t, "creation") {
					e.CreationObserved(owner)
					created++
					history += " a creation"
				} else {
					uid := rapid.SampledFrom(uids).Draw(t, "deleted")
					e.DeletionObserved(owner, uid)
					gone[uid] = true
					history += " " + string(uid) + " gone"
				}
			}
			want := created >= creations
			for _, uid := range deletions {
				want = want && gone[uid]
			}
			assert.Equal(t, map[bool]string{true: "may act", false: "waits"}[want], strings.SplitN(waits(e, owner), ",", 2)[0], history)
		})
	})
}
