package nodeipam

import "net/netip"

// pool is a range of the cluster, cut into pieces of one size, and how many hold each.
type pool struct {
	cluster netip.Prefix
	bits    int     // the mask of a piece
	holders []int32 // by the number of the piece
	used    int     // how many pieces have a holder
	shared  int     // how many have more than one
	next    int     // where the search for a free piece begins
}

func newPool(p Pool) *pool {
	cut := &pool{cluster: p.Cluster, bits: p.Bits, holders: make([]int32, 1<<(p.Bits-p.Cluster.Bits()))}
	cut.observe(0)
	return cut
}

// pieces returns the numbers of the pieces that a range touches: from first up to, and without,
// end. These are the same where it touches none, because it is beside the pool's range or of
// the other family.
func (p *pool) pieces(r netip.Prefix) (first, end int) {
	switch {
	case !r.Overlaps(p.cluster):
		return 0, 0
	case r.Bits() <= p.cluster.Bits():
		return 0, len(p.holders)
	}
	address := r.Addr().AsSlice()
	for bit := p.cluster.Bits(); bit < p.bits; bit++ {
		first = first<<1 | int(address[bit/8]>>(7-bit%8)&1)
	}
	return first, first + 1<<max(0, p.bits-r.Bits())
}

// at returns the piece of a number.
func (p *pool) at(number int) netip.Prefix {
	address := p.cluster.Addr().AsSlice()
	for bit := p.bits - 1; bit >= p.cluster.Bits(); bit-- {
		address[bit/8] |= byte(number&1) << (7 - bit%8)
		number >>= 1
	}
	begin, _ := netip.AddrFromSlice(address)
	return netip.PrefixFrom(begin, p.bits)
}

// hold gives the pieces that a range touches one holder more. They are counted, and not just
// marked: a piece that two hold is not free when one of them goes (issue 70957).
func (p *pool) hold(r netip.Prefix) {
	before := p.used
	for i, end := p.pieces(r); i < end; i++ {
		switch p.holders[i]++; p.holders[i] {
		case 1:
			p.used++
		case 2:
			p.shared++
		}
	}
	p.observe(before)
}

// release takes away what hold has given.
func (p *pool) release(r netip.Prefix) {
	before := p.used
	for i, end := p.pieces(r); i < end; i++ {
		switch p.holders[i]--; p.holders[i] {
		case 0:
			p.used--
		case 1:
			p.shared--
		}
	}
	p.observe(before)
}

func (p *pool) isFull() bool { return p.used == len(p.holders) }

// take holds a free piece, of which there has to be one, and returns it. The search goes on
// where the last one has ended, so that a piece rests after its node has gone.
func (p *pool) take() netip.Prefix {
	passed := 0
	for ; p.holders[p.next] > 0; passed++ {
		p.next = (p.next + 1) % len(p.holders)
	}
	taken := p.at(p.next)
	p.hold(taken)
	p.goOnBehind(taken)
	tries.WithLabelValues(p.cluster.String()).Observe(float64(passed))
	return taken
}

// goOnBehind has the next search begin behind a range, if that is one of the pool's.
func (p *pool) goOnBehind(r netip.Prefix) {
	if first, end := p.pieces(r); first < end {
		p.next = end % len(p.holders)
	}
}
