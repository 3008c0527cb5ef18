package namespace

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestAccount(t *testing.T) {
	t.Parallel()
	audited := heldBy("example.com/audit")
	for _, test := range []struct {
		behaviour, situation string
		left                 remains
		want                 string
	}{
		{"pods may take as long as the most patient of them", "of two pods one has 30 seconds, and one 60",
			nothing(10*time.Second).with(pods, object("a", graceful(30)), object("b", graceful(60))), "60 seconds"},
		{"what has a finalizer is thought to need 15 seconds", "a ConfigMap has a finalizer",
			nothing(time.Hour).with(configMaps, object("ledger", going, audited)), "15 seconds"},
		{"of several resources the longest counts", "a pod has 30 seconds, an order has a finalizer",
			nothing(10*time.Second).with(pods, object("a", graceful(30))).with(orders, object("1", going, audited)), "30 seconds"},
		{"a grace period that is over does not count", "a pod with a finalizer had 30 seconds",
			nothing(30*time.Second).with(pods, object("a", graceful(30), audited)), "15 seconds"},
		{"a grace period of ages is not over", "a pod has as many seconds as there are",
			nothing(10*time.Second).with(pods, object("a", graceful(math.MaxInt64))), "9223372036854775807 seconds"},
		{"a pod with a finalizer has its grace period first", "a pod with a finalizer has 30 seconds",
			nothing(29*time.Second).with(pods, object("a", graceful(30), audited)), "30 seconds"},
		{"a pod that stays after its grace period is an error", "a pod had 30 seconds, and its node is gone",
			nothing(30*time.Second).with(pods, object("a", graceful(30))),
			"0 seconds, and: unexpected items still remain in namespace: shop for gvr: /v1, Resource=pods"},
		{"what stays without a reason is an error", "a ConfigMap without a finalizer was deleted and is there",
			nothing(time.Minute).with(configMaps, object("ledger", going)),
			"0 seconds, and: unexpected items still remain in namespace: shop for gvr: /v1, Resource=configmaps"},
		{"one object with a reason speaks for all of its resource", "of two ConfigMaps one has a finalizer",
			nothing(time.Minute).with(configMaps, object("a", going), object("b", going, audited)), "15 seconds"},
		{"one resource does not speak for another", "a ConfigMap has a finalizer, and an order none",
			nothing(time.Minute).with(configMaps, object("b", going, audited)).with(orders, object("1", going)),
			"15 seconds, and: unexpected items still remain in namespace: shop for gvr: shop.example.com/v1, Resource=orders"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			estimate, unaccounted := account(test.left)
			seen := fmt.Sprintf("%d seconds", estimate)
			if err := errors.Join(unaccounted...); err != nil {
				seen += ", and: " + err.Error()
			}
			assert.Equal(t, test.want, seen, "%s; the namespace has been going for %s", test.situation, test.left.elapsed)
		})
	}
}

func TestPatience(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour string
		waited    time.Duration
		estimate  int64
		want      time.Duration
	}{
		{"it waits a quarter of the time that it has waited", 20 * time.Second, 60, 5 * time.Second},
		{"it never waits for less than half a second", time.Second, 60, time.Second / 2},
		{"it never waits longer than half of the estimate and a second", time.Hour, 30, 16 * time.Second},
		{"however long the estimate is, it waits a quarter", time.Hour, math.MaxInt64, 15 * time.Minute},
		{"half of an odd number of seconds is rounded down", time.Hour, 15, 8 * time.Second},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want.String(), patience(test.waited, test.estimate).String(),
				"after %s, with %d seconds estimated", test.waited, test.estimate)
		})
	}
	t.Run("an end is noticed at most a quarter too late", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			end := time.Duration(rapid.Int64Range(int64(5*time.Second), int64(time.Hour)).Draw(t, "ends after"))
			looked := 5 * time.Second
			looks := 1
			for looked < end {
				looked += patience(looked, 1<<20)
				looks++
			}
			assert.LessOrEqual(t, looked, end+end/4, "it has ended after %s", end)
			assert.LessOrEqual(t, looks, 40, "looks in %s", end)
		})
	})
}
