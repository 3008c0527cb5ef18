package nodeipam

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kcmconfig "k8s.io/kube-controller-manager/config/v1alpha1"
	netutils "k8s.io/utils/net"
)

// Ranges says what is cut into pieces for nodes, and what no node is to get of it.
type Ranges struct {
	Pools    []Pool // one, or one of each family
	Services []netip.Prefix
}

// Pool is a range and the mask of the pieces that it is cut into, in bits.
type Pool struct {
	Cluster netip.Prefix
	Bits    int
}

// ParseRanges returns the ranges that the flags say, as they are in the configuration. It
// refuses what the original refuses when it has become the leader, and beside that Services
// in what is no range, and a mask that is too long. The error names the flag.
func ParseRanges(clusterCIDR string, c kcmconfig.NodeIPAMControllerConfiguration) (Ranges, error) {
	clusters, err := parseFamilies(strings.Split(strings.TrimSpace(clusterCIDR), ","))
	if err != nil {
		return Ranges{}, fmt.Errorf("--cluster-cidr=%s: %w", clusterCIDR, err)
	}
	var ranges Ranges
	if ranges.Pools, err = cut(clusters, c); err != nil {
		return Ranges{}, err
	}
	isBetween := func(r rune) bool { return r == ',' || r == ' ' }
	services := strings.FieldsFunc(c.ServiceCIDR+","+c.SecondaryServiceCIDR, isBetween)
	if ranges.Services, err = parseFamilies(services); err != nil {
		return Ranges{}, fmt.Errorf("--service-cluster-ip-range=%s: %w", strings.Join(services, ","), err)
	}
	return ranges, nil
}

// cut decides how large pieces are: a /24 of IPv4 and a /64 of IPv6, if no flag says anything
// else. There may be 2^16 of IPv6, as in the original, and 2^24 of IPv4, where that has no
// bound.
func cut(clusters []netip.Prefix, c kcmconfig.NodeIPAMControllerConfiguration) (pools []Pool, err error) {
	has4 := slices.ContainsFunc(clusters, func(r netip.Prefix) bool { return r.Addr().Is4() })
	has6 := slices.ContainsFunc(clusters, func(r netip.Prefix) bool { return r.Addr().Is6() })
	size, size4, size6 := c.NodeCIDRMaskSize, c.NodeCIDRMaskSizeIPv4, c.NodeCIDRMaskSizeIPv6
	switch {
	case size != 0 && (has4 && has6 || size4 != 0 || size6 != 0):
		return nil, fmt.Errorf("--node-cidr-mask-size=%d: must not be set for two families, nor beside a flag for one", size)
	case size4 != 0 && !has4:
		return nil, fmt.Errorf("--node-cidr-mask-size-ipv4=%d: --cluster-cidr has no IPv4", size4)
	case size6 != 0 && !has6:
		return nil, fmt.Errorf("--node-cidr-mask-size-ipv6=%d: --cluster-cidr has no IPv6", size6)
	}
	for _, cluster := range clusters {
		least := cluster.Bits()
		bits, most := int(cmp.Or(size, size6, 64)), min(least+16, 128)
		if cluster.Addr().Is4() {
			bits, most = int(cmp.Or(size, size4, 24)), min(least+24, 32)
		}
		if bits < least || bits > most {
			return nil, fmt.Errorf("--cluster-cidr=%s: --node-cidr-mask-size may be %d to %d for it, and is %d",
				cluster, least, most, bits)
		}
		pools = append(pools, Pool{cluster, bits})
	}
	return pools, nil
}

// parseFamilies reads ranges, of which no two may be of one family.
func parseFamilies(texts []string) ([]netip.Prefix, error) {
	all, err := parseAll(texts)
	if err == nil && (len(all) > 2 || len(all) == 2 && all[0].Addr().Is4() == all[1].Addr().Is4()) {
		err = errors.New("must be one range, or one of each family")
	}
	return all, err
}

// parseAll returns the ranges that can be read, and an error about the others.
func parseAll(texts []string) (all []netip.Prefix, err error) {
	for _, text := range texts {
		r, wrong := parsePrefix(text)
		if err = errors.Join(err, wrong); wrong == nil {
			all = append(all, r)
		}
	}
	return all, err
}

// parsePrefix reads a range as API servers once have let them in: with leading zeros, with
// bits behind the mask, or as IPv6 for IPv4.
func parsePrefix(text string) (netip.Prefix, error) {
	_, parsed, err := netutils.ParseCIDRSloppy(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	begin, _ := netip.AddrFromSlice(parsed.IP)
	bits, length := parsed.Mask.Size()
	return netip.PrefixFrom(begin.Unmap(), bits-length+begin.Unmap().BitLen()), nil
}
