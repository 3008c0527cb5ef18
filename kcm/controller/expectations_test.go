package controller

import (
	"fmt"
	"slices"
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
	tests := map[string]struct {
		do   func(e *Expectations, pass func(time.Duration))
		want string
	}{
		"for five minutes the owner waits": {
			do: func(e *Expectations, pass func(time.Duration)) {
				e.Expect(owner, 1)
				pass(5 * time.Minute)
			},
			want: "waits, creations: 1",
		},
		"after five minutes the owner may act on what it sees": {
			do: func(e *Expectations, pass func(time.Duration)) {
				e.Expect(owner, 1)
				pass(5*time.Minute + time.Second)
			},
			want: "may act",
		},
		"the five minutes begin with what was expected last": {
			do: func(e *Expectations, pass func(time.Duration)) {
				e.Expect(owner, 3)
				pass(4 * time.Minute)
				e.Expect(owner, 1)
				pass(4 * time.Minute)
			},
			want: "waits, creations: 1",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, clock := newTestExpectations()
			tt.do(e, func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) })
			assert.Equal(t, tt.want, waits(e, owner))
		})
	}
}

// Each method is called by several goroutines at once. The race detector finds which takes no lock; without it, counts
// that are wrong and the runtime's own look at maps do in most runs.
//
//exercise:race
func TestExpectationsOfSeveral(t *testing.T) {
	t.Parallel()
	t.Run("notifications that come at the same time are all counted", func(t *testing.T) {
		t.Parallel()
		e, _ := newTestExpectations()
		owner := expectingOwner("1")
		const goroutines, each, deletions = 8, 20_000, 200
		uids := []types.UID{"last"}
		for i := range goroutines * deletions {
			uids = append(uids, types.UID(fmt.Sprint(i)))
		}
		e.Expect(owner, goroutines*each, uids...)
		var notifications sync.WaitGroup
		for i := range goroutines {
			notifications.Go(func() {
				for n := range each {
					e.CreationObserved(owner)
					if n < deletions {
						e.DeletionObserved(owner, uids[1+i*deletions+n])
					}
				}
			})
		}
		notifications.Wait()
		assert.Equal(t, "waits, deletion of last", waits(e, owner),
			"%d goroutines tell of %d creations and %d deletions each; one deletion more is expected", goroutines, each, deletions)
	})
	t.Run("one owner may be asked about while another expects something, is told of it and is forgotten", func(t *testing.T) {
		t.Parallel()
		e, _ := newTestExpectations()
		asked, other := expectingOwner("1"), expectingOwner("9")
		other.SetName("shop")
		e.Expect(asked, 1)
		var goroutines sync.WaitGroup
		for _, call := range []func(){
			func() { e.Expect(other, 1, "a"); e.Forget(cache.MetaObjectToName(other)) },
			func() { e.Satisfied(asked) },
			func() { e.CreationObserved(other) },
			func() { e.DeletionObserved(other, "a") },
		} {
			goroutines.Go(func() {
				for range 40_000 {
					call()
				}
			})
		}
		goroutines.Wait()
		assert.Equal(t, "waits, creations: 1", waits(e, asked), "web expects a creation, whatever becomes of shop")
	})
	t.Run("one owner does not wait for what another expects", func(t *testing.T) {
		t.Parallel()
		e, _ := newTestExpectations()
		web, shop := expectingOwner("1"), expectingOwner("9")
		shop.SetName("shop")
		e.Expect(web, 1)
		e.CreationObserved(shop)
		assert.Equal(t, "may act", waits(e, shop), "shop, and web expects a creation")
		assert.Equal(t, "waits, creations: 1", waits(e, web), "web, and shop is told of a creation")
	})
}

// Whatever comes in whatever order and however often: an owner may act exactly
// when each of its creations and deletions was observed.
func TestExpectationsInAnyOrder(t *testing.T) {
	t.Parallel()
	const creation = "a creation"
	t.Run("in whatever order and however often they are told, the owner acts when all that it expected was told", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			owner := expectingOwner("1")
			creations := rapid.IntRange(0, 3).Draw(t, "creations")
			deletions := rapid.SliceOfDistinct(rapid.SampledFrom([]types.UID{"a", "b", "c", "d"}), rapid.ID).Draw(t, "deletions")
			told := rapid.SliceOfN(rapid.SampledFrom([]types.UID{creation, creation, "a", "b", "c", "d"}), 0, 12).Draw(t, "told")

			want, created := "may act", 0
			for _, notification := range told {
				if notification == creation {
					created++
				}
			}
			if created < creations || slices.ContainsFunc(deletions, func(uid types.UID) bool { return !slices.Contains(told, uid) }) {
				want = "waits"
			}
			e, _ := newTestExpectations()
			e.Expect(owner, creations, deletions...)
			for _, notification := range told {
				if notification == creation {
					e.CreationObserved(owner)
				} else {
					e.DeletionObserved(owner, notification)
				}
			}
			seen, _, _ := strings.Cut(waits(e, owner), ",")
			assert.Equal(t, want, seen, "expected: %d creations and the deletions of %v; told of: %v", creations, deletions, told)
		})
	})
}
