package endpointslicemirroring

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func ports(first, n int) (all []corev1.EndpointPort) {
	for i := range n {
		all = append(all, corev1.EndpointPort{Name: fmt.Sprint("p", first+i), Port: int32(first + i), Protocol: corev1.ProtocolTCP})
	}
	return all
}

func addresses(first, n int) (all []corev1.EndpointAddress) {
	for i := range n {
		all = append(all, corev1.EndpointAddress{IP: fmt.Sprintf("10.0.%d.%d", (first+i)/256, (first+i)%256)})
	}
	return all
}

func TestEachPortAndEachAddressIsLookedAtButNotEachPair(t *testing.T) {
	endpoints := byHand()
	endpoints.Subsets = []corev1.EndpointSubset{{Ports: ports(1, 2000), Addresses: addresses(0, 2000)}}
	var left leftOut
	allocations := testing.AllocsPerRun(1, func() {
		plan, now := decide(endpoints, nil, 1000)
		require.Len(t, plan.Create, 1)
		require.Len(t, plan.Create[0].Endpoints, 1000)
		require.Len(t, plan.Create[0].Ports, 2000)
		left = now
	})
	assert.Equal(t, leftOut{tooMany: 1000}, left)
	assert.Less(t, allocations, 100_000., "for 4,000 ports and addresses; there are 4,000,000 pairs")
}

func TestOfSubsetsThatOverlapNoMoreIsMirroredThanTheLimitAllows(t *testing.T) {
	endpoints := byHand()
	endpoints.Subsets = []corev1.EndpointSubset{{Ports: ports(1, 1000), Addresses: addresses(0, 1000)}}
	for i := range 1000 { // each port has an address that the others have not
		endpoints.Subsets = append(endpoints.Subsets, corev1.EndpointSubset{Ports: ports(1+i, 1), Addresses: addresses(1000+i, 1)})
	}
	plan, left := decide(endpoints, nil, 10)
	mirrored := 0
	for _, slice := range plan.Create {
		mirrored += len(slice.Endpoints)
	}
	assert.Equal(t, 1_001_000, mirrored+left.tooMany, "each address of each port is mirrored or counted")
	assert.LessOrEqual(t, mirrored, 2*mostLooks*10)
}
