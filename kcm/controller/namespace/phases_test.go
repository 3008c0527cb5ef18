package namespace

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// groups says which resources have their turn, one group after the other.
func groups(phases [][]resource) string {
	var groups []string
	for _, phase := range phases {
		var names []string
		for _, r := range phase {
			names = append(names, strings.TrimSuffix(r.Resource+"."+r.Group, "."))
		}
		slices.Sort(names)
		if names != nil {
			groups = append(groups, strings.Join(names, " "))
		}
	}
	if groups == nil {
		return "none"
	}
	return strings.Join(groups, ", then ")
}

func TestPhases(t *testing.T) {
	t.Parallel()
	metrics := schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods"}
	all := []resource{{configMaps, true}, {pods, true}, {orders, false}}
	for _, test := range []struct {
		behaviour string
		there     []resource
		elapsed   time.Duration
		podsFirst bool
		want      string
	}{
		{"pods go first", all, time.Minute, true, "pods, then configmaps orders.shop.example.com"},
		{"pods may go at once", all, 0, true, "pods"},
		{"the others wait until no objects can appear any more", all, lateCreations - 1, true, "pods"},
		{"after five seconds the others have their turn", all, 5 * time.Second, true, "pods, then configmaps orders.shop.example.com"},
		{"what has the name of pods in another group is not first", []resource{{metrics, true}, {pods, true}}, time.Minute, true,
			"pods, then pods.metrics.k8s.io"},
		{"where pods are not known the others have their turn", []resource{{configMaps, true}}, time.Minute, true, "configmaps"},
		{"where pods are not known nothing goes at once", []resource{{configMaps, true}}, 0, true, "none"},
		{"without the order pods go with the others", all, time.Minute, false, "configmaps orders.shop.example.com pods"},
		{"without the order nothing goes at once", all, 0, false, "none"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, groups(phases(test.there, test.elapsed, test.podsFirst)),
				"%s after the deletion; there are %s", test.elapsed, groups([][]resource{test.there}))
		})
	}
	t.Run("how a resource is deleted stays with it", func(t *testing.T) {
		t.Parallel()
		var asOne []string
		for _, phase := range phases(all, time.Minute, true) {
			for _, r := range phase {
				if r.asOne {
					asOne = append(asOne, r.Resource)
				}
			}
		}
		assert.ElementsMatch(t, []string{"pods", "configmaps"}, asOne, "to be deleted with one request each")
	})
}

func TestResourcesOfOneNameAreClearedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	events := resource{schema.GroupVersionResource{Version: "v1", Resource: "events"}, true}
	again := resource{schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}, true}
	assert.Equal(t, map[string][]resource{"events": {events, again}, "pods": {{pods, true}}},
		byName([]resource{events, {pods, true}, again}))
}
