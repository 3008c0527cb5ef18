package controller

import (
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

func TestExpectations(t *testing.T) {
	t.Parallel()
	owner, recreated := expectingOwner("1"), expectingOwner("2")
	tests := map[string]struct {
		do   func(*Expectations)
		want bool
	}{
		"an owner that expects nothing may act": {
			do:   func(*Expectations) {},
			want: true,
		},
		"every creation is waited for": {
			do: func(e *Expectations) {
				e.Expect(owner, 2)
				e.CreationObserved(owner)
			},
			want: false,
		},
		"the last creation ends the wait": {
			do: func(e *Expectations) {
				e.Expect(owner, 2)
				e.CreationObserved(owner)
				e.CreationObserved(owner)
			},
			want: true,
		},
		"a deletion notified twice is one deletion": {
			do: func(e *Expectations) {
				e.Expect(owner, 0, "a", "b")
				e.DeletionObserved(owner, "a")
				e.DeletionObserved(owner, "a")
			},
			want: false,
		},
		"every deletion ends the wait": {
			do: func(e *Expectations) {
				e.Expect(owner, 0, "a", "b")
				e.DeletionObserved(owner, "b")
				e.DeletionObserved(owner, "a")
			},
			want: true,
		},
		"a deletion that nobody expected counts for nothing": {
			do: func(e *Expectations) {
				e.Expect(owner, 0, "a")
				e.DeletionObserved(owner, "other")
			},
			want: false,
		},
		"a creation too many is not saved for later": {
			do: func(e *Expectations) {
				e.Expect(owner, 1)
				e.CreationObserved(owner)
				e.CreationObserved(owner)
				e.Expect(owner, 1)
			},
			want: false,
		},
		"creations and deletions are both waited for": {
			do: func(e *Expectations) {
				e.Expect(owner, 1, "a")
				e.CreationObserved(owner)
			},
			want: false,
		},
		"new expectations replace old ones": {
			do: func(e *Expectations) {
				e.Expect(owner, 5, "a")
				e.Expect(owner, 0)
			},
			want: true,
		},
		"what an earlier owner of the name expected is not waited for": {
			do:   func(e *Expectations) { e.Expect(recreated, 1) },
			want: true,
		},
		"a late notification for an earlier owner of the name counts for nothing": {
			do: func(e *Expectations) {
				e.Expect(owner, 1, "a")
				e.CreationObserved(recreated)
				e.DeletionObserved(recreated, "a")
			},
			want: false,
		},
		"an owner that is forgotten may act": {
			do: func(e *Expectations) {
				e.Expect(owner, 1)
				e.Forget(cache.ObjectName{Namespace: "default", Name: "web"})
			},
			want: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _ := newTestExpectations()
			tt.do(e)
			assert.Equal(t, tt.want, e.Satisfied(owner))
		})
	}
}

func TestExpectationsGiveUpAfterFiveMinutes(t *testing.T) {
	t.Parallel()
	e, clock := newTestExpectations()
	owner := expectingOwner("1")
	e.Expect(owner, 1)

	clock.SetTime(clock.Now().Add(5 * time.Minute))
	assert.False(t, e.Satisfied(owner))
	clock.SetTime(clock.Now().Add(time.Second))
	assert.True(t, e.Satisfied(owner))
}

func TestExpectationsCountNotificationsThatComeTogether(t *testing.T) {
	t.Parallel()
	e, _ := newTestExpectations()
	owner := expectingOwner("1")
	e.Expect(owner, 100, "last")
	var notifications sync.WaitGroup
	for range 100 {
		notifications.Go(func() { e.CreationObserved(owner) })
	}
	notifications.Wait()
	assert.False(t, e.Satisfied(owner))
	e.DeletionObserved(owner, "last")
	assert.True(t, e.Satisfied(owner))
}

// Whatever comes in whatever order and however often: an owner may act exactly
// when each of its creations and deletions was observed.
func TestExpectationsAreMetByExactlyWhatWasExpected(t *testing.T) {
	t.Parallel()
	uids := []types.UID{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		e, _ := newTestExpectations()
		owner := expectingOwner("1")
		creations := rapid.IntRange(0, 3).Draw(t, "creations")
		deletions := rapid.SliceOfDistinct(rapid.SampledFrom(uids), rapid.ID).Draw(t, "deletions")
		e.Expect(owner, creations, deletions...)

		created, gone := 0, map[types.UID]bool{}
		for range rapid.IntRange(0, 12).Draw(t, "notifications") {
			if rapid.Bool().Draw(t, "creation") {
				e.CreationObserved(owner)
				created++
			} else {
				uid := rapid.SampledFrom(uids).Draw(t, "deleted")
				e.DeletionObserved(owner, uid)
				gone[uid] = true
			}
		}
		want := created >= creations
		for _, uid := range deletions {
			want = want && gone[uid]
		}
		assert.Equal(t, want, e.Satisfied(owner))
	})
}
