package endpointslicemirroring

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// anyIP is what may stand where an address should.
func anyIP() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.000.002.001", "2001:db8::1", "2001:DB8:0::1", "::ffff:192.0.2.1", ""}), rapid.String())
}

// anySubset makes up what somebody may have written.
func anySubset(t *rapid.T) corev1.EndpointSubset {
	var s corev1.EndpointSubset
	for range rapid.IntRange(0, 3).Draw(t, "ports") {
		s.Ports = append(s.Ports, corev1.EndpointPort{
			Name: rapid.SampledFrom([]string{"", "http", "metrics"}).Draw(t, "port"), Port: rapid.SampledFrom([]int32{0, 80, 8080, -1}).Draw(t, "number"),
			Protocol: rapid.SampledFrom([]corev1.Protocol{"", "TCP", "UDP"}).Draw(t, "protocol"),
		})
	}
	for range rapid.IntRange(0, 6).Draw(t, "addresses") {
		address := corev1.EndpointAddress{IP: anyIP().Draw(t, "IP"), Hostname: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "hostname")}
		if rapid.Bool().Draw(t, "has a target") {
			address.TargetRef = &corev1.ObjectReference{Name: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "target"), UID: types.UID(rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "UID"))}
		}
		if rapid.Bool().Draw(t, "is ready") {
			s.Addresses = append(s.Addresses, address)
		} else {
			s.NotReadyAddresses = append(s.NotReadyAddresses, address)
		}
	}
	return s
}

// anySlice makes up a slice that has the labels of those that mirror.
func anySlice(t *rapid.T) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: rapid.String().Draw(t, "name")},
		AddressType: rapid.SampledFrom([]discoveryv1.AddressType{"IPv4", "IPv6", "FQDN"}).Draw(t, "type"),
		Ports:       portsOf(anySubset(t).Ports),
	}
	for range rapid.IntRange(0, 3).Draw(t, "endpoints") {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: rapid.SliceOfN(anyIP(), 0, 2).Draw(t, "addresses")})
	}
	return slice
}

// survives makes up Endpoints and slices. Whatever they are, a decision comes of
// it: no slice has more than the limit, no address is lost without being counted,
// and when all is written, there is nothing more to write.
func survives(t *rapid.T) {
	endpoints := byHand()
	for range rapid.IntRange(0, 4).Draw(t, "subsets") {
		endpoints.Subsets = append(endpoints.Subsets, anySubset(t))
	}
	var existing []*discoveryv1.EndpointSlice
	for range rapid.IntRange(0, 4).Draw(t, "slices") {
		existing = append(existing, anySlice(t))
	}
	limit := rapid.IntRange(1, 5).Draw(t, "limit")
	plan, left := decide(endpoints, existing, limit)
	written := slices.Concat(plan.Create, plan.Update, plan.Unchanged)
	for _, slice := range written {
		require.LessOrEqual(t, len(slice.Endpoints), limit)
		require.Len(t, slice.OwnerReferences, 1)
	}
	if left == (leftOut{}) {
		require.Equal(t, told(endpoints.Subsets), toldBy(written))
	}
	again, _ := decide(endpoints, written, limit)
	require.Empty(t, inWords(again), "when this was written: %s", inWords(plan))
}

// told returns the addresses that stand in subsets, as everybody writes them.
func told(subsets []corev1.EndpointSubset) map[string]bool {
	all := map[string]bool{}
	for _, s := range subsets {
		for _, address := range slices.Concat(s.Addresses, s.NotReadyAddresses) {
			endpoint, addressType, _ := endpointOf(address, true)
			all[fmt.Sprint(addressType, endpoint.Addresses)] = true
		}
	}
	return all
}

// toldBy returns those that stand in slices.
func toldBy(written []*discoveryv1.EndpointSlice) map[string]bool {
	all := map[string]bool{}
	for _, slice := range written {
		for _, endpoint := range slice.Endpoints {
			all[fmt.Sprint(slice.AddressType, endpoint.Addresses)] = true
		}
	}
	return all
}

func TestWhateverIsWrittenByHandADecisionComesOfIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, survives)
}

func FuzzWhateverIsWrittenByHandADecisionComesOfIt(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(survives))
}
