package resourcequota

import (
	"fmt"
	"testing"

	"k8s.io/client-go/tools/cache"
)

// BenchmarkLook is what a look at one pod of many costs, without the store.
func BenchmarkLook(b *testing.B) {
	p := pod("web", asks("cpu=100m memory=64Mi", "memory=128Mi"))
	p.Status.QOSClass = "Burstable"
	tally := newTally()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c, _ := chargeOf(p, pods, noon)
		tally.put(cache.NewObjectName("here", fmt.Sprint("web-", i%10_000)), c)
	}
}
