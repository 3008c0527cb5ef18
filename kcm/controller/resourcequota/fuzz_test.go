package resourcequota

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/cache"
)

// longExponent finds numbers of ten thousand digits and more. To read or compare
// one takes time, and for the API server too: it answers one of 100 million
// digits with a timeout.
var longExponent = regexp.MustCompile(`[eE][+-]?[0-9]{5}`)

// Quantities, scopes and their operators are what people have written. The sum
// over accounts is that over objects, whatever they are.
func FuzzWhateverPodsAskForTheSumIsThatOfEach(f *testing.F) {
	for _, quantity := range []string{"100m", "1", "1Ki", "0.5", "1e3", "12E", "9223372036854775807", "-1", "1n"} {
		f.Add(quantity, "250m", "PriorityClass", "In", "high", uint8(3))
		f.Add(quantity, quantity, "BestEffort", "Exists", "", uint8(200))
	}
	f.Fuzz(func(t *testing.T, first, second, scope, operator, class string, n uint8) {
		requests := make([]corev1.ResourceList, 2)
		for i, text := range []string{first, second} {
			if longExponent.MatchString(text) {
				t.Skip("the API server would compute until its answer is a timeout")
			}
			quantity, err := resource.ParseQuantity(text)
			if err != nil || len(text) > 20 {
				t.Skip("the API server lets no such quantity in")
			}
			requests[i] = corev1.ResourceList{corev1.ResourceCPU: quantity}
		}
		q := quota("limit", "pods=1 cpu=1 requests.cpu=1")
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
			ScopeName: corev1.ResourceQuotaScope(scope), Operator: corev1.ScopeSelectorOperator(operator), Values: []string{class},
		}}}
		tally, objects := newTally(), map[cache.ObjectName]*corev1.Pod{}
		for i := range int(n) {
			p := pod(fmt.Sprint("pod-", i), corev1.ResourceRequirements{Requests: requests[i%2]})
			if i%3 == 0 {
				p.Spec.PriorityClassName = class
			}
			name := cache.MetaObjectToName(p)
			charge, _ := chargeOf(p, pods, noon)
			tally.put(name, charge)
			objects[name] = p
		}
		sum, each := zero(q), sumOf(q, objects)
		tally.add(sum, q)
		for name, total := range each {
			require.Zero(t, total.Cmp(sum[name]), "%s of %d pods that ask for %s and %s: %s by accounts, %s one by one", name, n, first, second, new(sum[name]), &total)
		}
	})
}
