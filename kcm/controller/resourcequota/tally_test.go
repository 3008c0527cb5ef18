package resourcequota

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// sumOf adds up what a quota is to count, object by object, without a tally.
func sumOf(q *corev1.ResourceQuota, objects map[cache.ObjectName]*corev1.Pod) corev1.ResourceList {
	sum := zero(q)
	for name, object := range objects {
		charge, _ := chargeOf(object, pods, noon)
		if name.Namespace != q.Namespace || !charge.scopes.match(selectors(&q.Spec)) {
			continue
		}
		for resource, total := range sum {
			total.Add(charge.used[resource])
			sum[resource] = total
		}
	}
	return sum
}

func zero(q *corev1.ResourceQuota) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for name := range q.Spec.Hard {
		sum[name] = resource.Quantity{Format: resource.DecimalSI}
	}
	return sum
}

func somePod(t *rapid.T, name cache.ObjectName) *corev1.Pod {
	p := pod(name.Name, asks(fmt.Sprintf("cpu=%dm", 100*rapid.IntRange(0, 3).Draw(t, "cpu")), ""))
	p.Namespace = name.Namespace
	p.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded}).Draw(t, "phase")
	p.Spec.PriorityClassName = rapid.SampledFrom([]string{"", "high", "low"}).Draw(t, "class")
	if rapid.Bool().Draw(t, "deadline") {
		p.Spec.ActiveDeadlineSeconds = ptr.To(int64(60))
	}
	return p
}

func chargedFor(words string, in scopes) charge { return charge{used: list(words), scopes: in} }

// told is what a tally says of a quota, of the names that are limited.
func told(tally *tally, q *corev1.ResourceQuota) string {
	sum := zero(q)
	tally.add(sum, q)
	return written(sum)
}

func TestTally(t *testing.T) {
	t.Parallel()
	web, db := cache.NewObjectName("here", "web"), cache.NewObjectName("here", "db")
	all := quota("all", "pods=9 cpu=9")
	t.Run("pods of a template are one account", func(t *testing.T) {
		t.Parallel()
		tally := newTally()
		for i := range 1000 {
			charge, _ := chargeOf(pod("web", asks("cpu=100m memory=1Gi", "memory=1Gi")), pods, noon)
			tally.put(cache.NewObjectName("here", fmt.Sprint("web-", i)), charge)
		}
		assert.Len(t, tally.accounts["here"], 1, "accounts of 1000 pods that are alike")
		assert.Equal(t, "limits.memory=1000Gi pods=1k requests.cpu=100", told(tally, quota("all", "pods=1 requests.cpu=1 limits.memory=1")))
	})
	t.Run("of an object that was not there, the charge has changed", func(t *testing.T) {
		t.Parallel()
		known, changed := newTally().put(web, chargedFor("pods=1", nil))
		assert.Equal(t, [2]bool{false, true}, [2]bool{known, changed}, "known and changed, of the first that is put")
	})
	t.Run("the same charge once more changes nothing", func(t *testing.T) {
		t.Parallel()
		tally := newTally()
		tally.put(web, chargedFor("pods=1", nil))
		known, changed := tally.put(web, chargedFor("pods=1", nil))
		assert.Equal(t, [2]bool{true, false}, [2]bool{known, changed}, "known and changed, of one that is put again")
		assert.Equal(t, "cpu=0 pods=1", told(tally, all))
	})
	t.Run("the same charge in other words is the same", func(t *testing.T) {
		t.Parallel()
		tally := newTally()
		tally.put(web, chargedFor("cpu=1000m memory=1024Mi", nil))
		_, changed := tally.put(web, chargedFor("cpu=1 memory=1Gi", nil))
		assert.False(t, changed, "changed, of a pod that has asked for 1000m CPU and 1024Mi of memory and asks for 1 CPU and 1Gi")
	})
	for what, other := range map[string]charge{
		"another quantity":                  chargedFor("pods=1 cpu=2", scopes{priority: {"high"}}),
		"the same quantity of another name": chargedFor("pods=1 memory=1", scopes{priority: {"high"}}),
		"one name less":                     chargedFor("pods=1", scopes{priority: {"high"}}),
		"another value of a scope":          chargedFor("pods=1 cpu=1", scopes{priority: {"low"}}),
		"another scope":                     chargedFor("pods=1 cpu=1", scopes{attributes: {"high"}}),
		"a scope without a value":           chargedFor("pods=1 cpu=1", scopes{priority: nil}),
		"a scope more":                      chargedFor("pods=1 cpu=1", scopes{priority: {"high"}, attributes: nil}),
		"two values of a scope":             chargedFor("pods=1 cpu=1", scopes{priority: {"high", "low"}}),
		"no scope":                          chargedFor("pods=1 cpu=1", nil),
	} {
		t.Run("charges that a quota can tell apart are not alike: "+what, func(t *testing.T) {
			t.Parallel()
			tally := newTally()
			tally.put(web, chargedFor("pods=1 cpu=1", scopes{priority: {"high"}}))
			_, changed := tally.put(web, other)
			assert.True(t, changed, "changed, of an object that was charged for 1 pod and 1 CPU in the scope PriorityClass with the value high. The new charge has %s", what)
		})
	}
	t.Run("an object that is charged otherwise is charged no more as before", func(t *testing.T) {
		t.Parallel()
		tally := newTally()
		tally.put(web, chargedFor("pods=1 cpu=1", nil))
		known, changed := tally.put(web, chargedFor("pods=1 cpu=2", nil))
		assert.Equal(t, [2]bool{true, true}, [2]bool{known, changed}, "known and changed")
		assert.Equal(t, "cpu=2 pods=1", told(tally, all), "one pod, which has asked for 1 CPU and asks for 2")
	})
	t.Run("what is removed is not there to be removed again", func(t *testing.T) {
		t.Parallel()
		tally := newTally()
		tally.put(web, chargedFor("pods=1", nil))
		tally.put(db, chargedFor("pods=1", nil))
		assert.True(t, tally.remove(web), "it was there")
		assert.False(t, tally.remove(web), "it was there")
		assert.Equal(t, "cpu=0 pods=1", told(tally, all), "of two pods one was removed, twice")
	})
	t.Run("an account without objects goes", func(t *testing.T) {
		t.Parallel()
		tally := newTally()
		tally.put(web, chargedFor("pods=1 cpu=1", nil))
		tally.put(web, chargedFor("pods=1 cpu=2", nil))
		assert.Len(t, tally.accounts["here"], 1, "accounts of one pod that was charged otherwise before")
		tally.remove(web)
		assert.Empty(t, tally.accounts, "accounts by namespace, when there is no object")
	})
	t.Run("only what is in the namespace of the quota is added", func(t *testing.T) {
		t.Parallel()
		tally := newTally()
		tally.put(web, chargedFor("pods=1", nil))
		tally.put(cache.NewObjectName("there", "web"), chargedFor("pods=1", nil))
		assert.Equal(t, "cpu=0 pods=1", told(tally, all))
	})
	t.Run("only what is in the scopes of the quota is added", func(t *testing.T) {
		t.Parallel()
		tally := newTally()
		tally.put(web, chargedFor("pods=1", scopes{corev1.ResourceQuotaScopeTerminating: present}))
		tally.put(db, chargedFor("pods=1", scopes{corev1.ResourceQuotaScopeNotTerminating: present}))
		assert.Equal(t, "pods=1", told(tally, quota("ending", "pods=9", corev1.ResourceQuotaScopeTerminating)))
	})
	t.Run("only names that are in the sum are added to", func(t *testing.T) {
		t.Parallel()
		tally := newTally()
		tally.put(web, chargedFor("pods=1 memory=1Gi", nil))
		assert.Equal(t, "cpu=0 pods=1", told(tally, all), "a pod asks for memory, which the quota does not limit")
	})
	t.Run("what the sum has already stays in it", func(t *testing.T) {
		t.Parallel()
		tally := newTally()
		tally.put(web, chargedFor("pods=1", nil))
		sum := list("pods=5")
		tally.add(sum, all)
		assert.Equal(t, "pods=6", written(sum))
	})
	t.Run("a sum can be asked for again", func(t *testing.T) {
		t.Parallel()
		tally := newTally()
		tally.put(web, chargedFor("pods=1 cpu=100m", nil))
		tally.put(db, chargedFor("pods=1 cpu=100m", nil))
		for range 3 {
			assert.Equal(t, "cpu=200m pods=2", told(tally, all))
		}
	})
	t.Run("a sum can be asked for again, also of what is too large for a number of 64 bits", func(t *testing.T) {
		t.Parallel()
		tally := newTally()
		tally.put(web, chargedFor("cpu=12345678901234567890123", nil))
		tally.put(db, chargedFor("cpu=12345678901234567890123", nil))
		once := told(tally, all)
		assert.Equal(t, once, told(tally, all))
	})
	t.Run("at all times it is the sum over its objects", func(t *testing.T) {
		t.Parallel()
		limits := "pods=1 requests.cpu=1 count/pods=1"
		quotas := []*corev1.ResourceQuota{
			quota("all", limits), quota("ending", limits, corev1.ResourceQuotaScopeTerminating),
			quota("lasting", limits, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort),
			with(quota("high", limits), func(q *corev1.ResourceQuota) {
				q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{asked(priority, notIn, "low")}}
			}),
		}
		rapid.Check(t, func(t *rapid.T) {
			objects := map[cache.ObjectName]*corev1.Pod{}
			tally := newTally()
			name := func() cache.ObjectName {
				return cache.NewObjectName(rapid.SampledFrom([]string{"here", "there"}).Draw(t, "namespace"), rapid.StringMatching("[a-d]").Draw(t, "name"))
			}
			t.Repeat(map[string]func(*rapid.T){
				"put": func(t *rapid.T) {
					n := name()
					before, there := objects[n]
					objects[n] = somePod(t, n)
					charge, _ := chargeOf(objects[n], pods, noon)
					known, changed := tally.put(n, charge)
					assert.Equal(t, there, known, "it was there")
					if there {
						was, _ := chargeOf(before, pods, noon)
						assert.Equal(t, was.key() != charge.key(), changed, "its charge has changed")
					}
				},
				"remove": func(t *rapid.T) {
					n := name()
					_, there := objects[n]
					delete(objects, n)
					assert.Equal(t, there, tally.remove(n))
				},
				"": func(t *rapid.T) {
					for _, q := range quotas {
						got := zero(q)
						tally.add(got, q)
						if want := written(sumOf(q, objects)); want != written(got) {
							t.Fatalf("quota %s: the tally says %s, the objects use %s", q.Name, written(got), want)
						}
					}
					if len(objects) == 0 && len(tally.accounts)+len(tally.objects) > 0 {
						t.Fatalf("nothing is left, but %d accounts", len(tally.accounts))
					}
				},
			})
		})
	})
}
