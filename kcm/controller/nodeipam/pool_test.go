package nodeipam

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestThePieceOfANumber(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what, pool string
		number     int
		want       string
	}{
		{"the first piece begins where the pool begins", "10.244.0.0/16 24", 0, "10.244.0.0/24"},
		{"the third of 256", "10.244.0.0/16 24", 2, "10.244.2.0/24"},
		{"the last of 256", "10.244.0.0/16 24", 255, "10.244.255.0/24"},
		{"pieces that are no whole bytes", "10.9.0.0/26 28", 3, "10.9.0.48/28"},
		{"the number goes on in the next byte", "10.0.0.0/8 26", 5, "10.0.1.64/26"},
		{"a pool of one piece", "10.9.0.0/28 28", 0, "10.9.0.0/28"},
		{"single addresses", "10.9.0.0/30 32", 3, "10.9.0.3/32"},
		{"everything", "0.0.0.0/0 8", 200, "200.0.0.0/8"},
		{"the 256th of IPv6", "fd00::/56 64", 255, "fd00:0:0:ff::/64"},
		{"the 257th of IPv6 is in another byte", "fd00::/48 64", 256, "fd00:0:0:100::/64"},
		{"a piece on both sides of the 64th bit", "fd00:0:0:10::/60 68", 0xab, "fd00:0:0:1a:b000::/68"},
		{"single addresses of IPv6", "fd00::/120 128", 7, "fd00::7/128"},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			p := newPool(cutInto(test.pool).Pools[0])
			assert.Equal(t, test.want, p.at(test.number).String(), "piece %d of %s", test.number, test.pool)
			first, end := p.pieces(netip.MustParsePrefix(test.want))
			assert.Equal(t, []int{test.number, test.number + 1}, []int{first, end}, "the pieces that %s touches, in %s", test.want, test.pool)
		})
	}
}

func TestThePiecesThatARangeTouches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ what, pool, ranges, want string }{
		{"a range as large as a piece", "10.9.0.0/26 28", "10.9.0.32/28", "2"},
		{"one address", "10.9.0.0/26 28", "10.9.0.17/32", "1"},
		{"a range narrower than a piece", "10.9.0.0/26 28", "10.9.0.56/29", "3"},
		{"a range of two pieces", "10.9.0.0/26 28", "10.9.0.32/27", "2 3"},
		{"the whole pool", "10.9.0.0/26 28", "10.9.0.0/26", "0 1 2 3"},
		{"more than the pool", "10.9.0.0/26 28", "10.9.0.0/24", "0 1 2 3"},
		{"more than the pool, of which that is no beginning", "10.9.0.64/26 28", "10.9.0.0/24", "0 1 2 3"},
		{"all addresses", "10.9.0.0/26 28", "0.0.0.0/0", "0 1 2 3"},
		{"before the pool", "10.9.0.64/26 28", "10.9.0.0/26", "none"},
		{"behind the pool", "10.9.0.0/26 28", "10.9.0.64/28", "none"},
		{"the other family", "10.9.0.0/26 28", "fd00::/64", "none"},
		{"all addresses of the other family", "10.9.0.0/26 28", "::/0", "none"},
		{"all addresses of IPv4 are none of IPv6", "::/8 10", "0.0.0.0/0", "none"},
		{"one address of IPv6", "fd00::/62 64", "fd00:0:0:2::1/128", "2"},
		{"wide and of IPv6", "fd00::/62 64", "fd00:0:0:2::/63", "2 3"},
		{"each range holds its own", "10.9.0.0/26 28", "10.9.0.0/28 10.9.0.48/28", "0 3"},
		{"what two touch has two holders", "10.9.0.0/26 28", "10.9.0.0/29 10.9.0.8/29 10.9.0.0/27", "0x3 1"},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			p := newPool(cutInto(test.pool).Pools[0])
			for _, r := range strings.Fields(test.ranges) {
				p.hold(netip.MustParsePrefix(r))
			}
			assert.Equal(t, test.want, p.String(), "the pieces of %s that %s holds", test.pool, test.ranges)
			for _, r := range strings.Fields(test.ranges) {
				p.release(netip.MustParsePrefix(r))
			}
			assert.Equal(t, "none", p.String(), "when all have gone")
			assert.Zero(t, p.used+p.shared, "when all have gone")
		})
	}
}

func TestAPieceThatTwoHoldIsFreeWhenBothHaveGone(t *testing.T) {
	t.Parallel()
	p := newPool(four.Pools[0])
	wide, narrow := netip.MustParsePrefix("10.9.0.0/27"), netip.MustParsePrefix("10.9.0.16/28")
	counts := func() []int { return []int{p.used, p.shared} }
	p.hold(wide)
	assert.Equal(t, []int{2, 0}, counts())
	p.hold(narrow)
	assert.Equal(t, []int{2, 1}, counts())
	p.release(wide)
	assert.Equal(t, []int{1, 0}, counts())
	assert.Equal(t, "1", p.String())
	p.release(narrow)
	assert.Equal(t, []int{0, 0}, counts())
}

func TestPiecesAreGivenInARing(t *testing.T) {
	t.Parallel()
	p := newPool(four.Pools[0])
	take := func() string { require.False(t, p.isFull()); return p.take().String() }
	p.hold(netip.MustParsePrefix("10.9.0.16/28"))
	assert.Equal(t, "10.9.0.0/28", take())
	assert.Equal(t, "10.9.0.32/28", take(), "the next one was held")
	p.release(netip.MustParsePrefix("10.9.0.0/28"))
	assert.Equal(t, "10.9.0.48/28", take(), "what was freed rests")
	assert.Equal(t, "10.9.0.0/28", take(), "until the others have been given")
	assert.True(t, p.isFull())
	p.release(netip.MustParsePrefix("10.9.0.48/28"))
	assert.Equal(t, "10.9.0.48/28", take(), "the search goes around")
	p.goOnBehind(netip.MustParsePrefix("10.9.0.0/27"))
	assert.Equal(t, 2, p.next, "behind all pieces of a range")
	p.goOnBehind(netip.MustParsePrefix("10.9.0.48/28"))
	assert.Equal(t, 0, p.next, "behind the last one is the first one")
	p.next = 3
	p.goOnBehind(netip.MustParsePrefix("10.8.0.0/28"))
	p.goOnBehind(netip.MustParsePrefix("fd00::/64"))
	assert.Equal(t, 3, p.next, "what is none of the pool's does not count")
}

// drawPool returns a pool of at most 256 pieces, anywhere.
func drawPool(t *rapid.T, is4 bool) *pool {
	length := 128
	if is4 {
		length = 32
	}
	most := rapid.IntRange(0, 8).Draw(t, "bits of a number")
	mask := rapid.IntRange(0, length-most).Draw(t, "mask")
	bytes := rapid.SliceOfN(rapid.Byte(), length/8, length/8).Draw(t, "address")
	address, _ := netip.AddrFromSlice(bytes)
	return newPool(Pool{netip.PrefixFrom(address, mask).Masked(), mask + most})
}

// Which pieces a range touches is what the addresses say: it touches those whose first or last
// address it has, or of which it is a part.
func TestARangeTouchesWhatItHasAddressesOf(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		is4 := rapid.Bool().Draw(t, "IPv4")
		p := drawPool(t, is4)
		near := p.at(rapid.IntRange(0, len(p.holders)-1).Draw(t, "near"))
		bits := rapid.IntRange(max(0, near.Bits()-10), min(near.Addr().BitLen(), near.Bits()+4)).Draw(t, "mask of the range")
		r := netip.PrefixFrom(near.Addr(), bits).Masked()
		p.hold(r)
		for i := range p.holders {
			piece := p.at(i)
			require.True(t, asNet(p.cluster).Contains(net.IP(piece.Addr().AsSlice())), "%s is of %s", piece, p.cluster)
			touches := asNet(r).Contains(asNet(piece).IP) || asNet(piece).Contains(asNet(r).IP)
			require.Equal(t, touches, p.holders[i] == 1, "%s, of %s in pieces of /%d: the piece %s", r, p.cluster, p.bits, piece)
		}
	})
}

func asNet(r netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: r.Addr().AsSlice(), Mask: net.CIDRMask(r.Bits(), r.Addr().BitLen())}
}
