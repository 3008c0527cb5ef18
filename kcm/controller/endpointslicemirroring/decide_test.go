package endpointslicemirroring

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kcm-book/kcm-book/kcm/controller/endpointslice"
)

// byHand returns Endpoints with subsets such as "8080: 192.0.2.1 192.0.2.2!", with ! at addresses that are not ready.
func byHand(subsets ...string) *corev1.Endpoints {
	endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web", UID: "web", Labels: map[string]string{"team": "blue"},
		Annotations: map[string]string{"note": "kept", corev1.EndpointsLastChangeTriggerTime: "now", corev1.LastAppliedConfigAnnotation: "{}"},
	}}
	for _, text := range subsets {
		port, addresses, _ := strings.Cut(text, ":")
		subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: port, Protocol: corev1.ProtocolTCP}}}
		fmt.Sscan(port, &subset.Ports[0].Port)
		for _, ip := range strings.Fields(addresses) {
			ip, notReady := strings.CutSuffix(ip, "!")
			if notReady {
				subset.NotReadyAddresses = append(subset.NotReadyAddresses, corev1.EndpointAddress{IP: ip})
			} else {
				subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: ip})
			}
		}
		endpoints.Subsets = append(endpoints.Subsets, subset)
	}
	return endpoints
}

// inWords returns a plan as "create IPv4 8080: 192.0.2.1; delete web-1".
func inWords(plan endpointslice.Plan) string {
	var words []string
	for operation, all := range map[string][]*discoveryv1.EndpointSlice{"create": plan.Create, "update": plan.Update} {
		for _, slice := range all {
			var ports []string
			for _, p := range slice.Ports {
				ports = append(ports, fmt.Sprint(*p.Port))
			}
			text := fmt.Sprintf("%s %s %s%s:", operation, slice.AddressType, slice.Name, strings.Join(ports, ","))
			for _, e := range slice.Endpoints {
				text += " " + e.Addresses[0]
				if !*e.Conditions.Ready {
					text += "!"
				}
			}
			words = append(words, text)
		}
	}
	for _, slice := range plan.Delete {
		words = append(words, "delete "+slice.Name)
	}
	slices.Sort(words)
	return strings.Join(words, "; ")
}

func TestEndpointsByHandAreMirrored(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		endpoints *corev1.Endpoints
		limit     int
		want      string
		left      leftOut
	}{
		"addresses become endpoints, ready and not": {byHand("8080: 192.0.2.1 192.0.2.2!"), 9, "create IPv4 8080: 192.0.2.1 192.0.2.2!", leftOut{}},
		"each family has a slice":                   {byHand("8080: 192.0.2.1 2001:db8::1"), 9, "create IPv4 8080: 192.0.2.1; create IPv6 8080: 2001:db8::1", leftOut{}},
		"each port has a slice":                     {byHand("8080: 192.0.2.1", "9090: 192.0.2.2"), 9, "create IPv4 8080: 192.0.2.1; create IPv4 9090: 192.0.2.2", leftOut{}},
		"an address with two ports has one slice":   {byHand("8080: 192.0.2.1", "9090: 192.0.2.1"), 9, "create IPv4 8080,9090: 192.0.2.1", leftOut{}},
		"ports that not all have are by themselves": {byHand("8080: 192.0.2.1 192.0.2.2", "9090: 192.0.2.1"), 9,
			"create IPv4 8080: 192.0.2.1 192.0.2.2; create IPv4 9090: 192.0.2.1", leftOut{}},
		"an address that is ready and is not is not": {byHand("8080: 192.0.2.1", "8080: 192.0.2.1!"), 9, "create IPv4 8080: 192.0.2.1!", leftOut{}},
		"there are no more than the limit, the ready ones first": {byHand("8080: 192.0.2.1 192.0.2.2 192.0.2.3!"), 2,
			"create IPv4 8080: 192.0.2.1 192.0.2.2", leftOut{tooMany: 1}},
		"what is no address is left out, and takes no room": {byHand("8080: nowhere 192.0.2.1 192.0.2.2"), 2,
			"create IPv4 8080: 192.0.2.1 192.0.2.2", leftOut{invalid: 1}},
		"no addresses are no slices": {byHand(), 9, "", leftOut{}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			plan, left := decide(test.endpoints, nil, test.limit)
			assert.Equal(t, test.want, inWords(plan))
			assert.Equal(t, test.left, left)
		})
	}
}

// Two subsets may each have a port without a name, and one may have two of the same.
func TestASliceHasOnePortOfAName(t *testing.T) {
	t.Parallel()
	endpoints := byHand("8080: 192.0.2.1", "8081: 192.0.2.1", "9090: 192.0.2.1")
	endpoints.Subsets[1].Ports[0].Name = endpoints.Subsets[0].Ports[0].Name
	plan, _ := decide(endpoints, nil, 9)
	assert.Equal(t, "create IPv4 8080,9090: 192.0.2.1", inWords(plan))
}

func TestAMirrorFollows(t *testing.T) {
	t.Parallel()
	written := func(endpoints *corev1.Endpoints) []*discoveryv1.EndpointSlice {
		plan, _ := decide(endpoints, nil, 9)
		for i, slice := range plan.Create {
			slice.Name = fmt.Sprint("web-", i)
		}
		return plan.Create
	}
	for what, test := range map[string]struct {
		endpoints *corev1.Endpoints
		want      string
	}{
		"nothing new is nothing to write":          {byHand("8080: 192.0.2.2 192.0.2.1"), ""},
		"an address that is not ready any more":    {byHand("8080: 192.0.2.1 192.0.2.2!"), "update IPv4 web-08080: 192.0.2.1 192.0.2.2!"},
		"another port takes the slice":             {byHand("9090: 192.0.2.1"), "update IPv4 web-09090: 192.0.2.1"},
		"another family needs another slice":       {byHand("8080: 2001:db8::1"), "create IPv6 8080: 2001:db8::1; delete web-0"},
		"nothing left":                             {byHand(), "delete web-0"},
		"other Endpoints of the name have it, too": {func() *corev1.Endpoints { e := byHand("8080: 192.0.2.1 192.0.2.2"); e.UID = "next"; return e }(), "update IPv4 web-08080: 192.0.2.1 192.0.2.2"},
		"another label": {func() *corev1.Endpoints {
			e := byHand("8080: 192.0.2.1 192.0.2.2")
			e.Labels = nil
			return e
		}(), "update IPv4 web-08080: 192.0.2.1 192.0.2.2"},
		"another note": {func() *corev1.Endpoints {
			e := byHand("8080: 192.0.2.1 192.0.2.2")
			e.Annotations["note"] = "new"
			return e
		}(), "update IPv4 web-08080: 192.0.2.1 192.0.2.2"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			plan, _ := decide(test.endpoints, written(byHand("8080: 192.0.2.1 192.0.2.2")), 9)
			assert.Equal(t, test.want, inWords(plan))
			for _, slice := range plan.Update {
				assert.Equal(t, test.endpoints.UID, slice.OwnerReferences[0].UID, "the owner")
			}
		})
	}
	t.Run("notes are taken over but for those about the object itself", func(t *testing.T) {
		t.Parallel()
		slice := written(byHand("8080: 192.0.2.1"))[0]
		require.Equal(t, map[string]string{"note": "kept"}, slice.Annotations)
		assert.Equal(t, map[string]string{"team": "blue", discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: ControllerName}, slice.Labels)
	})
}

func TestMetricsHaveTheOriginalsNames(t *testing.T) {
	t.Parallel()
	registerMetrics()
	skipped.WithLabelValues().Observe(0) // what has no value yet is not told
	added.WithLabelValues().Observe(0)
	removed.WithLabelValues().Observe(0)
	duration.WithLabelValues().Observe(0)
	changes.WithLabelValues("create").Add(0)
	(&usages{all: map[cache.ObjectName]usage{}}).set(cache.NewObjectName("default", "web"), usage{})
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	var names []string
	for _, family := range families {
		if name, ok := strings.CutPrefix(family.GetName(), subsystem+"_"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	assert.Equal(t, []string{
		"addresses_skipped_per_sync", "changes", "desired_endpoint_slices", "endpoints_added_per_sync", "endpoints_desired",
		"endpoints_removed_per_sync", "endpoints_sync_duration", "num_endpoint_slices",
	}, names)
}

func TestUsageIsThatOfTheSlicesThatThereAreThen(t *testing.T) {
	t.Parallel()
	slice := func(port int32, endpoints int) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}}, Endpoints: make([]discoveryv1.Endpoint, endpoints),
		}
	}
	plan := endpointslice.Plan{
		Create: []*discoveryv1.EndpointSlice{slice(80, 2)}, Update: []*discoveryv1.EndpointSlice{slice(80, 1)},
		Unchanged: []*discoveryv1.EndpointSlice{slice(443, 1)}, Delete: []*discoveryv1.EndpointSlice{slice(80, 3)},
	}
	assert.Equal(t, usage{endpoints: 4, slices: 3, fewest: 2}, usageOf(plan, 3))
	u := &usages{all: map[cache.ObjectName]usage{}}
	u.set(cache.NewObjectName("default", "web"), usageOf(plan, 3))
	u.set(cache.NewObjectName("default", "db"), usage{1, 1, 1})
	assert.Equal(t, usage{5, 4, 3}, u.sum)
	u.set(cache.NewObjectName("default", "web"), usage{})
	assert.Equal(t, usage{1, 1, 1}, u.sum)
	assert.Len(t, u.all, 1, "what is gone is forgotten")
}
