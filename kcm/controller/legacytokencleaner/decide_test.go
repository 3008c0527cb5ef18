package legacytokencleaner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func TestATokenThatNobodyUsesIsMarkedAndThenRemoved(t *testing.T) {
	t.Parallel()
	const now = "2000-01-20 12:00" // so the period has begun at noon of January 10
	for _, test := range []struct {
		behaviour string
		token     token
		want      verdict
	}{
		{"a token that was never used is marked", token{secret(), true, false}, invalidate},
		{"a token that was last used on the day before the period began is marked", token{secret(used("2000-01-09")), true, false}, invalidate},
		{"a token that was used on the day on which the period began stays", token{secret(used("2000-01-10")), true, false}, leave},
		{"a token that was used tomorrow, by another clock, stays", token{secret(used("2000-01-21")), true, false}, leave},
		{"a token of which it is not known when it was used stays", token{secret(used("yesterday")), true, false}, leave},
		{"an empty day is no day", token{secret(used("")), true, false}, leave},
		{"a token that was made within the period stays", token{secret(created("2000-01-10 12:01")), true, false}, leave},
		{"a token that was made before it is marked", token{secret(created("2000-01-10 11:59")), true, false}, invalidate},
		{"a token that its account does not list is a user's", token{secret(), false, false}, leave},
		{"a token that a pod names stays", token{secret(), true, true}, leave},
		{"a token that is being deleted is left to that", token{secret(func(s *corev1.Secret) { s.DeletionTimestamp = new(metav1.NewTime(day(now))) }), true, false}, leave},
		{"a token that was marked on the day on which the period began stays", token{secret(marked("2000-01-10")), true, false}, leave},
		{"a token that was marked on the day before is removed", token{secret(marked("2000-01-09")), true, false}, remove},
		{"a marked token that somebody still tries to use stays", token{secret(marked("1999-12-01"), used("2000-01-19")), true, false}, leave},
		{"a marked token that a pod names stays", token{secret(marked("1999-12-01")), true, true}, leave},
		{"a mark that is no day is made anew", token{secret(marked("true")), true, false}, invalidate},
		{"a mark that is empty is none", token{secret(marked("")), true, false}, invalidate},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, decide(test.token, tenDays, day(now)), "what is to become of a token at noon of January 20, when the period is ten days")
		})
	}
}

func TestADayCountsAsTheTextsOfTheOriginalDo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		since := time.Unix(rapid.Int64Range(-1e10, 1e11).Draw(t, "seconds"), 0).In(time.FixedZone("there", rapid.IntRange(-50000, 50000).Draw(t, "offset")))
		on := time.Unix(since.Unix()+rapid.Int64Range(-200000, 200000).Draw(t, "later"), 0).UTC().Format(time.DateOnly)
		ended, ok := endedBefore(on, since)
		assert.True(t, ok)
		assert.Equal(t, on < since.UTC().Format(time.DateOnly), ended, "whether %s was over at %s", on, since)
	})
}
