package nodeipam

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ledger knows which node has which ranges, or is to get which.
type ledger struct {
	pools []*pool
	held  map[types.UID]holding // another node of a name is another node
	// waiting are the nodes for which nothing is left, in the order in which they came.
	waiting []*corev1.Node
}

// holding is what a node has, or is to get.
type holding struct {
	ranges  []netip.Prefix // none while it waits
	written bool           // the API server has confirmed these ranges, and the cache may be behind: wrote sets it
}

// newLedger returns a ledger in which Services hold their ranges, for ever.
func newLedger(ranges Ranges) *ledger {
	l := &ledger{held: map[types.UID]holding{}}
	for _, p := range ranges.Pools {
		l.pools = append(l.pools, newPool(p))
	}
	l.each(ranges.Services, (*pool).hold)
	return l
}

// each does something in each pool for each range. It is nothing where they do not touch.
func (l *ledger) each(ranges []netip.Prefix, do func(*pool, netip.Prefix)) {
	for _, r := range ranges {
		for _, p := range l.pools {
			do(p, r)
		}
	}
}

// saw notes how a node is. Ranges that it has take the place of those that were set aside for
// it. One that has none, and is not being deleted, is to get some.
func (l *ledger) saw(node *corev1.Node) {
	holds, known := l.held[node.UID]
	switch has, _ := parseAll(node.Spec.PodCIDRs); {
	case len(node.Spec.PodCIDRs) > 0:
		if len(holds.ranges) == 0 || !slices.Equal(has, holds.ranges) {
			l.gone(node)
			l.held[node.UID] = holding{ranges: has}
			l.each(has, (*pool).hold)
		}
	case node.DeletionTimestamp == nil && !known:
		l.held[node.UID] = holding{}
		l.waiting = append(l.waiting, node)
	case node.DeletionTimestamp != nil && len(holds.ranges) == 0:
		l.gone(node)
	}
}

// gone frees what a node holds, or is to get.
func (l *ledger) gone(node *corev1.Node) {
	l.each(l.held[node.UID].ranges, (*pool).release)
	delete(l.held, node.UID)
	l.waiting = slices.DeleteFunc(l.waiting, func(other *corev1.Node) bool { return other.UID == node.UID })
}

// deal sets pieces aside for those who wait, first come, first served, and returns for whom. A
// node gets one of each family. As long as a family has none left, nobody gets any.
func (l *ledger) deal() (served []*corev1.Node) {
	for len(l.waiting) > 0 && !slices.ContainsFunc(l.pools, (*pool).isFull) {
		node := l.waiting[0]
		l.waiting = l.waiting[1:]
		var taken []netip.Prefix
		for _, p := range l.pools {
			taken = append(taken, p.take())
		}
		l.held[node.UID] = holding{ranges: taken}
		served = append(served, node)
	}
	return served
}

// wrote notes that a node has what was set aside for it, unless it is gone by now.
func (l *ledger) wrote(node *corev1.Node) {
	if holds, known := l.held[node.UID]; known {
		holds.written = true
		l.held[node.UID] = holds
	}
}

// begin makes a ledger of all nodes that there are. A request of the process before this one
// may still be carried out, and so a node is to be dealt what that process has dealt it. That
// can be known, mostly: it has served nodes in the order of their age, each with what came
// behind the ranges of the one before.
func (l *ledger) begin(nodes []*corev1.Node) {
	slices.SortFunc(nodes, byAge)
	for _, node := range nodes {
		if len(node.Spec.PodCIDRs) > 0 {
			l.saw(node)
		}
	}
	for _, node := range nodes {
		l.saw(node)
		l.deal()
		l.each(l.held[node.UID].ranges, (*pool).goOnBehind)
	}
}

func byAge(a, b *corev1.Node) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// check returns what is wrong with the ranges of a node. To put it right takes another node:
// ranges never change.
func (l *ledger) check(node *corev1.Node) error {
	ranges, err := parseAll(node.Spec.PodCIDRs)
	for _, r := range ranges {
		var holders []int32
		for _, p := range l.pools {
			if first, end := p.pieces(r); first < end {
				holders = p.holders[first:end]
			}
		}
		switch {
		case len(holders) == 0:
			err = errors.Join(err, fmt.Errorf("%s is none of the cluster's", r))
		case slices.Max(holders) > 1:
			err = errors.Join(err, fmt.Errorf("%s is not its alone: another node has addresses of it, or Services have", r))
		}
	}
	return err
}
