package nodeipam

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kcmconfig "k8s.io/kube-controller-manager/config/v1alpha1"
)

type sizes = kcmconfig.NodeIPAMControllerConfiguration

func TestTheRangesThatFlagsSay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what, cluster string
		sizes         sizes
		want          string
	}{
		{"nodes get a /24 of IPv4", "10.244.0.0/16", sizes{}, "10.244.0.0/16 in /24"},
		{"nodes get a /64 of IPv6", "fd00::/56", sizes{}, "fd00::/56 in /64"},
		{"nodes get one of each family", "10.244.0.0/16,fd00::/56", sizes{}, "10.244.0.0/16 in /24; fd00::/56 in /64"},
		{"the families are in the order of the flag", "fd00::/56,10.244.0.0/16", sizes{}, "fd00::/56 in /64; 10.244.0.0/16 in /24"},
		{"a mask for IPv4", "10.9.0.0/26", sizes{NodeCIDRMaskSize: 28}, "10.9.0.0/26 in /28"},
		{"a mask for IPv6", "fd00::/112", sizes{NodeCIDRMaskSize: 120}, "fd00::/112 in /120"},
		{"a mask that is for IPv4 alone", "10.9.0.0/26", sizes{NodeCIDRMaskSizeIPv4: 28}, "10.9.0.0/26 in /28"},
		{"a mask that is for IPv6 alone", "fd00::/112", sizes{NodeCIDRMaskSizeIPv6: 120}, "fd00::/112 in /120"},
		{"a mask for each family", "10.9.0.0/26,fd00::/112", sizes{NodeCIDRMaskSizeIPv4: 28, NodeCIDRMaskSizeIPv6: 120}, "10.9.0.0/26 in /28; fd00::/112 in /120"},
		{"a mask for one of two families", "10.9.0.0/26,fd00::/56", sizes{NodeCIDRMaskSizeIPv4: 28}, "10.9.0.0/26 in /28; fd00::/56 in /64"},
		{"one node gets it all", "10.9.0.0/24", sizes{}, "10.9.0.0/24 in /24"},
		{"single addresses", "10.9.0.0/24", sizes{NodeCIDRMaskSize: 32}, "10.9.0.0/24 in /32"},
		{"bits behind the mask are passed over", "10.9.0.7/24", sizes{}, "10.9.0.0/24 in /24"},
		{"leading zeros are passed over", "010.009.000.000/24", sizes{}, "10.9.0.0/24 in /24"},
		{"blanks around it all are passed over", " 10.9.0.0/24 ", sizes{}, "10.9.0.0/24 in /24"},
		{"as many pieces of IPv4 as may be", "0.0.0.0/0", sizes{}, "0.0.0.0/0 in /24"},
		{"as many pieces of IPv6 as may be", "fd00::/48", sizes{}, "fd00::/48 in /64"},
		{"Services hold their range", "10.9.0.0/24", sizes{ServiceCIDR: "10.9.0.0/28"}, "10.9.0.0/24 in /24; without 10.9.0.0/28"},
		{"Services hold both their ranges", "10.9.0.0/24", sizes{ServiceCIDR: "fd00::/112", SecondaryServiceCIDR: " 10.96.0.0/12"}, "10.9.0.0/24 in /24; without fd00::/112; without 10.96.0.0/12"},
		{"a second range of Services alone", "10.9.0.0/24", sizes{SecondaryServiceCIDR: "10.96.0.0/12"}, "10.9.0.0/24 in /24; without 10.96.0.0/12"},

		{"no range", "", sizes{}, "--cluster-cidr=: invalid CIDR address: "},
		{"no mask", "10.9.0.0", sizes{}, "--cluster-cidr=10.9.0.0: invalid CIDR address: 10.9.0.0"},
		{"a blank between ranges", "10.9.0.0/24, fd00::/56", sizes{}, "--cluster-cidr=10.9.0.0/24, fd00::/56: invalid CIDR address:  fd00::/56"},
		{"two of IPv4", "10.9.0.0/24,10.8.0.0/24", sizes{}, "--cluster-cidr=10.9.0.0/24,10.8.0.0/24: must be one range, or one of each family"},
		{"two of IPv6", "fd00::/56,fd01::/56", sizes{}, "--cluster-cidr=fd00::/56,fd01::/56: must be one range, or one of each family"},
		{"three", "10.9.0.0/24,fd00::/56,10.8.0.0/24", sizes{}, "--cluster-cidr=10.9.0.0/24,fd00::/56,10.8.0.0/24: must be one range, or one of each family"},
		{"a mask for two families", "10.9.0.0/24,fd00::/56", sizes{NodeCIDRMaskSize: 28}, "--node-cidr-mask-size=28: must not be set for two families, nor beside a flag for one"},
		{"a mask twice", "10.9.0.0/24", sizes{NodeCIDRMaskSize: 28, NodeCIDRMaskSizeIPv4: 28}, "--node-cidr-mask-size=28: must not be set for two families, nor beside a flag for one"},
		{"a mask for one family, and one for the other", "10.9.0.0/24", sizes{NodeCIDRMaskSize: 28, NodeCIDRMaskSizeIPv6: 64}, "--node-cidr-mask-size=28: must not be set for two families, nor beside a flag for one"},
		{"a mask for IPv4 where there is none", "fd00::/56", sizes{NodeCIDRMaskSizeIPv4: 28}, "--node-cidr-mask-size-ipv4=28: --cluster-cidr has no IPv4"},
		{"a mask for IPv6 where there is none", "10.9.0.0/24", sizes{NodeCIDRMaskSizeIPv6: 64}, "--node-cidr-mask-size-ipv6=64: --cluster-cidr has no IPv6"},
		{"a mask shorter than the cluster's", "10.9.0.0/26", sizes{}, "--cluster-cidr=10.9.0.0/26: --node-cidr-mask-size may be 26 to 32 for it, and is 24"},
		{"a mask below zero", "10.9.0.0/26", sizes{NodeCIDRMaskSize: -1}, "--cluster-cidr=10.9.0.0/26: --node-cidr-mask-size may be 26 to 32 for it, and is -1"},
		{"a mask that IPv4 has not", "10.9.0.0/26", sizes{NodeCIDRMaskSize: 33}, "--cluster-cidr=10.9.0.0/26: --node-cidr-mask-size may be 26 to 32 for it, and is 33"},
		{"a mask that IPv6 has not", "fd00::/120", sizes{NodeCIDRMaskSize: 129}, "--cluster-cidr=fd00::/120: --node-cidr-mask-size may be 120 to 128 for it, and is 129"},
		{"too many pieces of IPv4", "0.0.0.0/0", sizes{NodeCIDRMaskSize: 25}, "--cluster-cidr=0.0.0.0/0: --node-cidr-mask-size may be 0 to 24 for it, and is 25"},
		{"too many pieces of IPv6", "fd00::/47", sizes{}, "--cluster-cidr=fd00::/47: --node-cidr-mask-size may be 47 to 63 for it, and is 64"},
		{"Services in no range", "10.9.0.0/24", sizes{ServiceCIDR: "10.96.0.0"}, "--service-cluster-ip-range=10.96.0.0: invalid CIDR address: 10.96.0.0"},
		{"Services in two ranges of one family", "10.9.0.0/24", sizes{ServiceCIDR: "10.96.0.0/12", SecondaryServiceCIDR: "10.0.0.0/12"},
			"--service-cluster-ip-range=10.96.0.0/12,10.0.0.0/12: must be one range, or one of each family"},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			ranges, err := ParseRanges(test.cluster, test.sizes)
			var said []string
			for _, p := range ranges.Pools {
				said = append(said, fmt.Sprintf("%s in /%d", p.Cluster, p.Bits))
			}
			for _, s := range ranges.Services {
				said = append(said, "without "+s.String())
			}
			if err != nil {
				require.Empty(t, said)
				said = append(said, err.Error())
			}
			assert.Equal(t, test.want, strings.Join(said, "; "))
		})
	}
}

func TestARangeIsReadHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.9.0.0/24":           "10.9.0.0/24",
		"100.1.2.2/24":          "100.1.2.0/24",
		"010.1.002.2/24":        "10.1.2.0/24",
		"::ffff:10.244.1.0/120": "10.244.1.0/24",
		"::ffff:10.244.1.7/96":  "0.0.0.0/0",
		"::ffff:0:0/95":         "::fffe:0:0/95",
		"FD00::1/64":            "fd00::/64",
		"0.0.0.0/0":             "0.0.0.0/0",
		"::/0":                  "::/0",
		"<nil>":                 "invalid CIDR address: <nil>",
		"":                      "invalid CIDR address: ",
		"10.9.0.0/33":           "invalid CIDR address: 10.9.0.0/33",
	} {
		r, err := parsePrefix(text)
		if err != nil {
			assert.Equal(t, want, err.Error(), text)
			continue
		}
		assert.Equal(t, want, r.String(), text)
	}
}

// Whatever a node has as its range, it is read as the library reads it, or refused, and holds
// the pieces of which it has addresses.
func FuzzWhateverANodeHasItHoldsThePiecesThatItTouches(f *testing.F) {
	for _, text := range []string{"10.9.0.16/28", "010.9.0.17/28", "::ffff:10.9.0.0/122", "0.0.0.0/0", "::/0", "fd00::/64", "<nil>", "10.9.0.0/33"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := newPool(four.Pools[0])
		r, err := parsePrefix(text)
		if err != nil {
			return
		}
		require.Equal(t, r.Masked(), r)
		p.hold(r)
		_, wants, err := net.ParseCIDR(r.String())
		require.NoError(t, err)
		for i, n := range p.holders {
			piece := asNet(p.at(i))
			touches := wants.IP.To4() != nil && (wants.Contains(piece.IP) || piece.Contains(wants.IP))
			require.Equal(t, touches, n == 1, "%s and %s", text, piece)
		}
		p.release(r)
		require.Equal(t, "none", p.String())
	})
}
