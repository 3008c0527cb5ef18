package resourcequota

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, situation string
		quota           *corev1.ResourceQuota
		sums, freed     string
		want            string
	}{
		{"a quota without a status gets limits and sums", "pods are limited to 2, and there is 1",
			quota("limit", "pods=2"), "pods=1", "", "write pods=1 of pods=2"},
		{"one that is as it should be is not written", "1 of 2 pods, as the status says",
			countedQuota("limit", "pods=2", "pods=1"), "pods=1", "", "keep pods=1 of pods=2"},
		{"the same sum in other words is the same", "the status says 1000m of 2 CPU, and there is 1",
			countedQuota("limit", "cpu=2", "cpu=1000m"), "cpu=1", "", "keep cpu=1 of cpu=2"},
		{"a higher sum is written", "the status says 1 pod, and there are 2",
			countedQuota("limit", "pods=2", "pods=1"), "pods=2", "", "write pods=2 of pods=2"},
		{"a lower sum is written", "the status says 2 pods, and there is 1, for 1 has gone",
			countedQuota("limit", "pods=2", "pods=2"), "pods=1", "pods=1", "write pods=1 of pods=2"},
		{"a lower sum is not written while nothing has gone", "the status says 2 pods, and 1 is to be seen",
			countedQuota("limit", "pods=2", "pods=2"), "pods=1", "", "keep pods=2 of pods=2"},
		{"a sum is lowered by what has gone, and by no more", "the status says 3 pods, 1 is to be seen, and 1 has gone",
			countedQuota("limit", "pods=3 services=1", "pods=3 services=1"), "pods=1 services=0", "pods=1", "write pods=2 services=1 of pods=3 services=1"},
		{"what is there is not taken away", "the status says 2 pods, 2 are to be seen, and 1 has gone",
			countedQuota("limit", "pods=2", "pods=2"), "pods=2", "pods=1", "keep pods=2 of pods=2"},
		{"more than the limit is told as it is", "the limit is 2, and there are 3",
			countedQuota("limit", "pods=2", "pods=2"), "pods=3", "", "write pods=3 of pods=2"},
		{"another limit is written", "the limit was 1, and is 2",
			with(countedQuota("limit", "pods=1", "pods=1"), func(q *corev1.ResourceQuota) { q.Spec.Hard = list("pods=2") }), "pods=1", "", "write pods=1 of pods=2"},
		{"what is limited no more is not told of", "services were limited",
			with(countedQuota("limit", "pods=2 services=1", "pods=1 services=1"), func(q *corev1.ResourceQuota) { q.Spec.Hard = list("pods=2") }), "pods=1", "", "write pods=1 of pods=2"},
		{"what nobody can count has no sum", "shoes are limited",
			quota("limit", "pods=2 shoes=2"), "pods=1", "", "write pods=1 of pods=2 shoes=2"},
		{"what cannot be counted now keeps its sum", "comets were counted, and their informer is gone",
			countedQuota("limit", "pods=2 count/comets=9", "pods=1 count/comets=3"), "pods=2", "", "write count/comets=3 pods=2 of count/comets=9 pods=2"},
		{"a sum of zero is told", "there is no pod",
			quota("limit", "pods=2"), "pods=0", "", "write pods=0 of pods=2"},
		{"a quota without limits needs nothing", "somebody has made one for later",
			quota("limit", ""), "", "", "keep nothing of nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before := c.quota.DeepCopy()
			status, write := decide(c.quota, list(c.sums), list(c.freed))
			got := "keep "
			if write {
				got = "write "
			}
			assert.Equal(t, c.want, got+written(status.Used)+" of "+written(status.Hard), c.situation)
			assert.Equal(t, before, c.quota, "decide has changed the quota, which is the cache's")
		})
	}
}

func TestAQuotaIsUncountedWhileTheAPIServerKnowsNoSum(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		quota *corev1.ResourceQuota
		want  bool
	}{
		"a new quota":          {quota("limit", "pods=1"), true},
		"one with all sums":    {countedQuota("limit", "pods=1", "pods=0"), false},
		"one that lacks a sum": {countedQuota("limit", "pods=1 services=1", "pods=0"), true},
		"one that lacks the sum of what nobody counts": {countedQuota("limit", "pods=1 shoes=1", "pods=0"), false},
		"one whose status has other limits": {with(countedQuota("limit", "pods=1", "pods=0"), func(q *corev1.ResourceQuota) {
			q.Spec.Hard = list("pods=2")
		}), true},
	} {
		assert.Equal(t, c.want, isUncounted(c.quota), what)
	}
}
