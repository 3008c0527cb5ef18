package nodeipam

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// String says who holds what: "a: 10.9.0.0/28; b waits".
func (l *ledger) String() string {
	var said []string
	for _, uid := range slices.Sorted(maps.Keys(l.held)) {
		name := strings.TrimPrefix(string(uid), "uid-")
		if len(l.held[uid].ranges) == 0 {
			said = append(said, name+" waits")
			continue
		}
		words := []string{name + ":"}
		for _, r := range l.held[uid].ranges {
			words = append(words, r.String())
		}
		said = append(said, strings.Join(words, " "))
	}
	return cmp.Or(strings.Join(said, "; "), "nothing")
}

// names are those of nodes, in their order.
func names(nodes []*corev1.Node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return cmp.Or(strings.Join(all, " "), "nobody")
}

// filled is a ledger of four pieces that has seen nodes of these names.
func filled(all ...string) *ledger {
	l := newLedger(four)
	for _, name := range all {
		l.saw(node(name))
	}
	l.deal()
	return l
}

func TestEachNodeHasPiecesOfItsOwn(t *testing.T) {
	t.Parallel()
	const a, ab = "a: 10.9.0.0/28", "a: 10.9.0.0/28; b: 10.9.0.16/28"
	full := filled("a", "b", "c", "d").String()
	for _, test := range []struct {
		what  string
		there []string // nodes that have come before
		then  func(l *ledger)
		want  string
		used  int
	}{
		{"the first come get the first pieces", []string{"a", "b"}, func(*ledger) {}, ab, 2},
		{"a node that is seen twice has what it had", []string{"a"}, func(l *ledger) { l.saw(node("a")) }, a, 1},
		{"a node for which nothing is left waits", []string{"a", "b", "c", "d", "e"}, func(*ledger) {}, full + "; e waits", 4},
		{"a node that waits and is seen again waits once", []string{"a", "b", "c", "d", "e"}, func(l *ledger) { l.saw(node("e")); l.gone(node("a")); l.gone(node("b")); l.deal() },
			"c: 10.9.0.32/28; d: 10.9.0.48/28; e: 10.9.0.0/28", 3},
		{"what the cluster says is what was set aside", []string{"a"}, func(l *ledger) { l.saw(node("a", "10.9.0.0/28")) }, a, 1},
		{"what the cluster says takes the place of what was set aside", []string{"a"}, func(l *ledger) { l.saw(node("a", "10.9.0.32/28")) }, "a: 10.9.0.32/28", 1},
		{"of several ranges all are held", []string{"a"}, func(l *ledger) { l.saw(node("a", "10.9.0.32/28", "10.9.0.0/28")) }, "a: 10.9.0.32/28 10.9.0.0/28", 2},
		{"a range from elsewhere holds nothing", []string{"a"}, func(l *ledger) { l.saw(node("b", "192.168.7.0/24")) }, a + "; b: 192.168.7.0/24", 1},
		{"one behind it in the list does", []string{"a"}, func(l *ledger) { l.saw(node("b", "192.168.7.0/24", "10.9.0.48/28")) }, a + "; b: 192.168.7.0/24 10.9.0.48/28", 2},
		{"so does one behind one that cannot be read", nil, func(l *ledger) { l.saw(node("b", "<nil>", "10.9.0.48/28")) }, "b: 10.9.0.48/28", 1},
		{"a node with what cannot be read waits for nothing", []string{"a", "b", "c", "d", "e"}, func(l *ledger) { l.saw(node("e", "<nil>")); l.gone(node("a")); l.deal() },
			"b: 10.9.0.16/28; c: 10.9.0.32/28; d: 10.9.0.48/28; e waits", 3},
		{"a node that brings its range along is given no other", []string{"a", "b", "c", "d", "e"}, func(l *ledger) { l.saw(node("e", "10.9.0.0/24")); l.gone(node("a")); l.deal() },
			"b: 10.9.0.16/28; c: 10.9.0.32/28; d: 10.9.0.48/28; e: 10.9.0.0/24", 4},
		{"a node that goes frees what it holds", []string{"a", "b"}, func(l *ledger) { l.gone(node("b")) }, a, 1},
		{"it does so whatever it said at last", []string{"a", "b", "c", "d", "e"},
			func(l *ledger) { l.gone(node("d", "10.9.0.0/28")); l.deal() },
			"a: 10.9.0.0/28; b: 10.9.0.16/28; c: 10.9.0.32/28; e: 10.9.0.48/28", 4},
		{"a node that holds nothing frees nothing", []string{"a"}, func(l *ledger) { l.gone(node("b", "10.9.0.0/28")) }, a, 1},
		{"another node of the name is another one", []string{"a"}, func(l *ledger) { l.saw(node("a/2")); l.deal() }, "a: 10.9.0.0/28; a2: 10.9.0.16/28", 2},
		{"it frees nothing of its namesake", []string{"a"}, func(l *ledger) { l.gone(node("a/2")) }, a, 1},
		{"an answer about a node that is gone by then changes nothing", []string{"a", "b"}, func(l *ledger) { l.gone(node("b")); l.wrote(node("b")) }, a, 1},
		{"a copy that goes frees nothing", []string{"a"}, func(l *ledger) {
			l.saw(node("copy", "10.9.0.0/28"))
			l.gone(node("copy", "10.9.0.0/28"))
		}, a, 1},
		{"a node that is to go keeps what it has", []string{"a"}, func(l *ledger) { l.saw(going(node("a", "10.9.0.0/28"))) }, a, 1},
		{"and what was set aside for it", []string{"a"}, func(l *ledger) { l.saw(going(node("a"))) }, a, 1},
		{"a node that is to go gets nothing", []string{"a"}, func(l *ledger) { l.saw(going(node("b"))) }, a, 1},
		{"nor when it has waited", []string{"a", "b", "c", "d", "e"}, func(l *ledger) { l.saw(going(node("e"))); l.gone(node("a")); l.deal() },
			"b: 10.9.0.16/28; c: 10.9.0.32/28; d: 10.9.0.48/28", 3},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			l := filled(test.there...)
			test.then(l)
			assert.Equal(t, test.want, l.String(), "who holds what, after nodes %v had come", test.there)
			assert.Equal(t, test.used, l.pools[0].used, "how many pieces are used: %s", l.pools[0])
		})
	}
}

func TestWhoWaitsIsServedFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	l := filled("a", "b", "c", "d")
	for _, name := range []string{"z", "f", "e"} {
		l.saw(node(name))
	}
	assert.Equal(t, "nobody", names(l.deal()))
	l.gone(node("b"))
	assert.Equal(t, "z", names(l.deal()), "one piece is free")
	assert.Equal(t, "nobody", names(l.deal()), "it is given once")
	l.gone(node("f"))
	l.gone(node("a"))
	l.gone(node("c"))
	assert.Equal(t, "e", names(l.deal()), "two are free, and f has gone")
	l.saw(node("g"))
	assert.Equal(t, "g", names(l.deal()))
	assert.Equal(t, "d: 10.9.0.48/28; e: 10.9.0.32/28; g: 10.9.0.0/28; z: 10.9.0.16/28", l.String())
}

func TestANodeGetsOneOfEachFamilyOrNothing(t *testing.T) {
	t.Parallel()
	l := newLedger(cutInto("10.9.0.0/26 28", "fd00::/63 64"))
	for _, name := range []string{"a", "b", "c"} {
		l.saw(node(name))
	}
	assert.Equal(t, "a b", names(l.deal()))
	assert.Equal(t, "a: 10.9.0.0/28 fd00::/64; b: 10.9.0.16/28 fd00:0:0:1::/64; c waits", l.String())
	assert.Equal(t, 2, l.pools[0].used, "of the family that has some left, nothing is lost")
	l.gone(node("a"))
	assert.Equal(t, "c", names(l.deal()))
	assert.Equal(t, "b: 10.9.0.16/28 fd00:0:0:1::/64; c: 10.9.0.32/28 fd00::/64", l.String())
	l.saw(node("d", "fd00::/64", "10.9.0.0/28"))
	assert.Equal(t, []int{3, 2}, []int{l.pools[0].used, l.pools[1].used}, "a range is of the family that it is of, wherever it stands in the list")
}

func TestServicesKeepTheirRange(t *testing.T) {
	t.Parallel()
	ranges := cutInto("10.9.0.0/26 28")
	ranges.Services = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/27"), netip.MustParsePrefix("fd00::/64")}
	l := newLedger(ranges)
	l.saw(node("a", "10.9.0.0/28"))
	l.gone(node("a", "10.9.0.0/28"))
	for _, name := range []string{"b", "c", "d"} {
		l.saw(node(name))
	}
	l.deal()
	assert.Equal(t, "b: 10.9.0.32/28; c: 10.9.0.48/28; d waits", l.String())
}

// What a new process deals is what the one before it has dealt, and may still be writing.
func TestANewProcessDealsAsTheOneBefore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what  string
		nodes []*corev1.Node
		want  string
	}{
		{"nothing was written yet", []*corev1.Node{bornAt(1, node("c")), bornAt(2, node("a")), bornAt(3, node("b"))},
			"a: 10.9.0.16/28; b: 10.9.0.32/28; c: 10.9.0.0/28"},
		{"the ring goes on behind the youngest node", []*corev1.Node{bornAt(1, node("a", "10.9.0.32/28")), bornAt(2, node("b", "10.9.0.0/28")), bornAt(3, node("c"))},
			"a: 10.9.0.32/28; b: 10.9.0.0/28; c: 10.9.0.16/28"},
		{"a node that is older was dealt what comes before", []*corev1.Node{bornAt(1, node("a", "10.9.0.0/28")), bornAt(2, node("b")), bornAt(3, node("c", "10.9.0.32/28")), bornAt(4, node("d"))},
			"a: 10.9.0.0/28; b: 10.9.0.16/28; c: 10.9.0.32/28; d: 10.9.0.48/28"},
		{"what others have is not dealt", []*corev1.Node{bornAt(1, node("a")), bornAt(2, node("b", "10.9.0.0/28")), bornAt(3, node("c"))},
			"a: 10.9.0.16/28; b: 10.9.0.0/28; c: 10.9.0.32/28"},
		{"of two that were created in one second, the name says which was first", []*corev1.Node{bornAt(1, node("b")), bornAt(1, node("a"))},
			"a: 10.9.0.0/28; b: 10.9.0.16/28"},
		{"who waits, waits in the order of age", []*corev1.Node{bornAt(3, node("a")), bornAt(2, node("b")), bornAt(1, node("c", "10.9.0.0/26"))},
			"a waits; b waits; c: 10.9.0.0/26"},
		{"a node that is to go is dealt nothing", []*corev1.Node{bornAt(1, going(node("a"))), bornAt(2, node("b"))},
			"b: 10.9.0.0/28"},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(10) {
				l := newLedger(four)
				shuffled := slices.Clone(test.nodes)
				rand.New(rand.NewPCG(seed, 0)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
				l.begin(shuffled)
				assert.Equal(t, test.want, l.String(), "who holds what, given the nodes in the order %s", names(shuffled))
			}
		})
	}
	t.Run("who has waited longer is served first", func(t *testing.T) {
		t.Parallel()
		l := newLedger(four)
		l.begin([]*corev1.Node{bornAt(3, node("a")), bornAt(2, node("b")), bornAt(1, node("c", "10.9.0.0/26"))})
		l.gone(node("c"))
		assert.Equal(t, "b a", names(l.deal()))
	})
}

func TestWhatIsWrongWithANodesRangesIsTold(t *testing.T) {
	t.Parallel()
	ranges := cutInto("10.9.0.0/26 28", "fd00::/63 64")
	ranges.Services = []netip.Prefix{netip.MustParsePrefix("10.9.0.48/28")}
	for _, test := range []struct{ what, ranges, want string }{
		{"a node that has its own", "10.9.0.0/28 fd00::/64", ""},
		{"a range from elsewhere", "192.168.7.0/24", "192.168.7.0/24 is none of the cluster's"},
		{"one beside one of its own", "10.9.0.0/28 192.168.7.0/24", "192.168.7.0/24 is none of the cluster's"},
		{"one that cannot be read", "<nil>", "invalid CIDR address: <nil>"},
		{"one of another node", "10.9.0.16/28", "10.9.0.16/28 is not its alone: another node has addresses of it, or Services have"},
		{"one that is wider than its own", "10.9.0.0/27", "10.9.0.0/27 is not its alone: another node has addresses of it, or Services have"},
		{"one of Services", "10.9.0.48/28", "10.9.0.48/28 is not its alone: another node has addresses of it, or Services have"},
		{"all of them", "::/0 10.9.1.0/24", "::/0 is not its alone: another node has addresses of it, or Services have\n10.9.1.0/24 is none of the cluster's"},
	} {
		l := newLedger(ranges)
		l.saw(node("other", "10.9.0.16/28", "fd00:0:0:1::/64"))
		seen := node("a", strings.Fields(test.ranges)...)
		l.saw(seen)
		assert.Equal(t, test.want, errorText(l.check(seen)), test.what)
		assert.Contains(t, l.held, types.UID("uid-a"))
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
