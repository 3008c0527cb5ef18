package deployment

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestAnnotationsAreCopiedExceptThoseThatBelongToOneObject(t *testing.T) {
	t.Parallel()
	d := rolling(1, "1", "0")
	d.Annotations = map[string]string{
		"kubernetes.io/change-cause":       "edit",
		corev1.LastAppliedConfigAnnotation: "d",
		revisionAnnotation:                 "d",
		revisionHistoryAnnotation:          "d",
		desiredReplicasAnnotation:          "d",
		maxReplicasAnnotation:              "d",
		appsv1.DeprecatedRollbackTo:        "d",
	}
	has := map[string]string{"kubernetes.io/change-cause": "create", "own": "stays", desiredReplicasAnnotation: "1"}
	assert.Equal(t, map[string]string{
		"kubernetes.io/change-cause": "edit",
		"own":                        "stays",
		desiredReplicasAnnotation:    "1",
		revisionAnnotation:           "4",
	}, annotationsOfNew(d, has, 4))
	assert.Equal(t, "create", has["kubernetes.io/change-cause"], "the map is the cache's")
}

func TestARevisionOnlyRises(t *testing.T) {
	t.Parallel()
	d := rolling(1, "1", "0")
	for _, tt := range []struct {
		has, history string
		next         int64
		want         string
		wantHistory  string
	}{
		{"1", "", 3, "3", "1"},
		{"5", "1,3", 7, "7", "1,3,5"},
		{"5", "1,3", 5, "5", "1,3"},
		{"5", "", 2, "5", ""}, // the ones below were deleted
		{"five", "", 2, "five", ""},
	} {
		has := map[string]string{revisionAnnotation: tt.has}
		if tt.history != "" {
			has[revisionHistoryAnnotation] = tt.history
		}
		got := annotationsOfNew(d, has, tt.next)
		assert.Equal(t, tt.want, got[revisionAnnotation])
		assert.Equal(t, tt.wantHistory, got[revisionHistoryAnnotation])
	}
}

func TestTheHistoryForgetsTheOldestRevisions(t *testing.T) {
	t.Parallel()
	long := "1," + strings.Repeat("22,", 666) // 2000 bytes
	assert.Equal(t, strings.Repeat("22,", 666)+",3", appendHistory(long, "3"), "as many as needed and no more")
	assert.LessOrEqual(t, len(appendHistory(long, "3")), maxHistoryLength)
}

func TestRevisionsThatAreNoNumbersDoNotCount(t *testing.T) {
	t.Parallel()
	d := rolling(1, "1", "0")
	odd := replicaSet(d, 3, 0)
	odd.Annotations[revisionAnnotation] = "three"
	none := replicaSet(d, 4, 0)
	none.Annotations = nil
	assert.EqualValues(t, 2, nextRevision([]*appsv1.ReplicaSet{odd, none, replicaSet(d, 1, 0)}))
	assert.EqualValues(t, 1, nextRevision(nil))
}
