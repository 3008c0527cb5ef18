package nodelifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// defaults are those of the flags.
var defaults = rates{usual: .1, secondary: .01, large: 50, threshold: .55}

func TestARateFollowsFromHowManyNodesAreNotReady(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour       string
		rates           rates
		nodes, notReady int
		want            float32
	}{
		{"where all are ready, nothing slows it down", defaults, 5, 0, .1},
		{"two of three are no disruption", defaults, 3, 2, .1},
		{"three of six are less than 55 of a hundred", defaults, 6, 3, .1},
		{"three of five are a partial disruption, in which a small zone evicts nobody", defaults, 5, 3, 0},
		{"a zone of fifty is small", defaults, 50, 49, 0},
		{"one of fifty-one is large, and slower", defaults, 51, 50, .01},
		{"a zone of which all are lost is as fast as one that is well", defaults, 5, 5, .1},
		{"also a zone of one", defaults, 1, 1, .1},
		{"a zone without nodes that count has the usual rate", defaults, 0, 0, .1},
		{"with a threshold above one there is no partial disruption", rates{.1, .01, 50, 1.1}, 100, 99, .1},
		{"the threshold itself is a disruption", rates{.1, .01, 50, .5}, 100, 50, .01},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, test.rates.of(test.nodes, test.notReady), "nodes a second, in a zone of %d nodes of which %d are not ready", test.nodes, test.notReady)
		})
	}
}

func TestWhatCountsOfANode(t *testing.T) {
	t.Parallel()
	one := func(notReady int) counts { return counts{nodes: 1, notReady: notReady} }
	for _, test := range []struct {
		behaviour, says string
		edits           []func(*corev1.Node)
		counts          counts
		lost            bool
	}{
		{"one that is ready counts", "Ready", nil, one(0), false},
		{"one that is not ready is lost", "not Ready", nil, one(1), true},
		{"so is one of which nobody knows", "? Ready", nil, one(1), true},
		{"one that has not said how it is counts as not ready, and is not lost", "", nil, one(1), false},
		{"one that has the taint is not lost any more", "? Ready", []func(*corev1.Node){evicted}, one(1), false},
		{"one that is excluded counts for nothing", "Ready", []func(*corev1.Node){excluded}, counts{}, false},
		{"one that is excluded is lost as others are", "not Ready", []func(*corev1.Node){excluded}, counts{}, true},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			l := &line{now: midnight}
			want := member{counts: test.counts, zone: ":\x00:a", lost: test.lost}
			if test.lost {
				want.since = midnight
			}
			got := memberOf(l.node("a1", test.says, test.edits...))
			if !got.lost {
				got.since = time.Time{} // nobody reads it
			}
			assert.Equal(t, want, got, "what counts of node a1 of zone a, which says %q since midnight", test.says)
		})
	}
}

// line is a cluster whose nodes are named a1, a2, b1 …, by their zones. Its clock says how many seconds
// have passed.
type line struct {
	*zones
	now time.Time
}

func newLine(rates rates, nodes ...string) *line {
	l := &line{zones: newZones(rates), now: midnight}
	for _, node := range nodes {
		l.is(node, "Ready")
	}
	l.now = l.now.Add(time.Hour)
	return l
}

// nodeOf is a node that says something of itself since a moment.
func (l *line) node(name, says string, edits ...func(*corev1.Node)) *corev1.Node {
	node := testNode(name)
	if says != "" {
		say(says)(node)
		node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(l.now)
	}
	node.Labels[corev1.LabelTopologyZone] = name[:1]
	for _, edit := range edits {
		edit(node)
	}
	return node
}

// is has a node say something, and returns which are to be looked at for that.
func (l *line) is(name, says string, edits ...func(*corev1.Node)) string {
	wake := l.put(l.node(name, says, edits...), l.now)
	slices.Sort(wake)
	return strings.Join(slices.Compact(wake), " ")
}

// pass lets seconds pass, in which nodes are looked at whenever they have said so, and returns which
// were granted a turn, and when.
func (l *line) pass(seconds int) string {
	from, all := l.now, []string{}
	for range seconds {
		l.now = l.now.Add(time.Second)
		for _, name := range slices.Sorted(mapsKeys(l.nodes)) {
			had := l.nodes[name].hasTurn
			if turn, _, _ := l.turn(name, l.now); turn == granted && !had {
				all = append(all, fmt.Sprintf("%s at %d", name, int(l.now.Sub(from).Seconds())))
			}
		}
	}
	return strings.Join(all, ", ")
}

func mapsKeys(nodes map[string]member) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range nodes {
			if !yield(name) {
				return
			}
		}
	}
}

func excluded(node *corev1.Node) { node.Labels["node.kubernetes.io/exclude-disruption"] = "" }

func evicted(node *corev1.Node) {
	node.Spec.Taints = []corev1.Taint{taint("unreachable", noExec)}
}

func TestLostNodesAreEvictedInTurns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		nodes                string
		happens              func(l *line) []string
		want                 string
	}{
		{"the first has its turn at once, the next ten seconds later", "two of six are lost", "a1 a2 a3 a4 a5 a6", func(l *line) []string {
			l.is("a1", "? Ready")
			l.is("a2", "not Ready")
			return []string{l.pass(100)}
		}, "a1 at 1, a2 at 11"},
		{"who is lost for longest is first", "a2 is lost a second earlier than a1", "a1 a2 a3 a4 a5 a6", func(l *line) []string {
			l.is("a2", "? Ready")
			l.now = l.now.Add(time.Second)
			l.is("a1", "? Ready")
			return []string{l.pass(100)}
		}, "a2 at 1, a1 at 11"},
		{"each zone has turns of its own", "one node of each of two zones is lost", "a1 a2 a3 b1 b2 b3", func(l *line) []string {
			l.is("a1", "? Ready")
			l.is("b1", "? Ready")
			return []string{l.pass(100)}
		}, "a1 at 1, b1 at 1"},
		{"a turn is not saved up", "two are lost after an hour without any", "a1 a2 a3 a4 a5 a6", func(l *line) []string {
			l.pass(3600)
			l.is("a1", "? Ready")
			l.is("a2", "? Ready")
			return []string{l.pass(100)}
		}, "a1 at 1, a2 at 11"},
		{"in a small zone that is partially lost nobody is evicted", "three of five are lost", "a1 a2 a3 a4 a5", func(l *line) []string {
			l.is("a1", "? Ready")
			l.is("a2", "? Ready")
			l.is("a3", "? Ready")
			return []string{l.pass(1000)}
		}, ""},
		{"when it is well again, the first turn comes after ten seconds", "three of five are lost, and one comes back", "a1 a2 a3 a4 a5", func(l *line) []string {
			l.is("a1", "? Ready")
			l.is("a2", "? Ready")
			l.is("a3", "? Ready")
			l.pass(1000)
			l.is("a3", "Ready")
			return []string{l.pass(100)}
		}, "a1 at 10, a2 at 20"},
		{"a zone that is lost altogether is evicted beside one that is well", "three of three are lost, and another zone is well", "a1 a2 a3 b1", func(l *line) []string {
			l.is("a1", "? Ready")
			l.is("a2", "? Ready")
			l.is("a3", "? Ready")
			return []string{l.pass(100)}
		}, "a1 at 1, a2 at 11, a3 at 21"},
		{"when no node is ready, nobody is evicted", "both zones are lost", "a1 a2 b1", func(l *line) []string {
			l.is("a1", "? Ready")
			l.is("a2", "? Ready")
			l.is("b1", "? Ready")
			return []string{l.pass(1000)}
		}, ""},
		{"when one is ready again, the first turns come after ten seconds", "both zones are lost, and b1 comes back", "a1 a2 b1 b2", func(l *line) []string {
			for _, name := range []string{"a1", "a2", "b1", "b2"} {
				l.is(name, "? Ready")
			}
			l.pass(1000)
			l.is("b1", "Ready")
			return []string{l.pass(100)}
		}, "a1 at 10, b2 at 10, a2 at 20"},
		{"a node of which nothing is said is not ready, and not lost", "one is lost, and of two others nothing is said", "a1 a2 a3", func(l *line) []string {
			l.is("a1", "? Ready")
			l.is("a2", "")
			l.is("a3", "")
			return []string{l.pass(1000)}
		}, ""},
		{"a node that does not count is evicted", "of three nodes one is lost that does not count", "a1 a2 a3", func(l *line) []string {
			l.is("a1", "? Ready", excluded)
			return []string{l.pass(100)}
		}, "a1 at 1"},
		{"also if none counts", "both nodes do not count, and one is lost", "", func(l *line) []string {
			l.is("a1", "? Ready", excluded)
			l.is("a2", "Ready", excluded)
			return []string{l.pass(100)}
		}, "a1 at 10"},
		{"it makes no disruption", "of five nodes three are lost, of which one does not count", "a1 a2 a3 a4 a5", func(l *line) []string {
			l.is("a3", "? Ready", excluded)
			l.is("a1", "? Ready")
			l.is("a2", "? Ready")
			return []string{l.pass(100)}
		}, "a1 at 1, a2 at 11, a3 at 21"},
		{"and none is ready because it is", "all nodes that count are lost, and one is ready that does not", "a1 a2", func(l *line) []string {
			l.is("a3", "Ready", excluded)
			l.is("a1", "? Ready")
			l.is("a2", "? Ready")
			return []string{l.pass(100)}
		}, ""},
		{"a node that comes back waits no more", "two are lost, and the first one comes back", "a1 a2 a3 a4 a5 a6", func(l *line) []string {
			l.is("a1", "? Ready")
			l.is("a2", "? Ready")
			l.is("a1", "Ready")
			return []string{l.pass(100)}
		}, "a2 at 1"},
		{"one that is gone waits no more", "two are lost, and the first one is gone", "a1 a2 a3 a4 a5 a6", func(l *line) []string {
			l.is("a1", "? Ready")
			l.is("a2", "? Ready")
			l.remove("a1", l.now)
			return []string{l.pass(100)}
		}, "a2 at 1"},
		{"one that is evicted already has no turn", "two are lost, and the first one has the taint", "a1 a2 a3 a4 a5 a6", func(l *line) []string {
			l.is("a1", "? Ready", evicted)
			l.is("a2", "? Ready")
			return []string{l.pass(100)}
		}, "a2 at 1"},
		{"one that has had its turn keeps it until it has the taint", "one is lost, and says something else after its turn, and then a second one is lost", "a1 a2 a3 a4", func(l *line) []string {
			l.is("a1", "? Ready")
			first := l.pass(5)
			l.is("a1", "not Ready")
			l.is("a2", "? Ready")
			return []string{first, l.pass(100)}
		}, "a1 at 1/a2 at 6"},
		{"one whose taint somebody takes off waits for another turn", "one is evicted, and a second later its taint is off", "a1 a2 a3", func(l *line) []string {
			l.is("a1", "? Ready")
			first := l.pass(1)
			l.is("a1", "? Ready", evicted)
			l.is("a1", "? Ready")
			return []string{first, l.pass(100)}
		}, "a1 at 1/a1 at 10"},
		{"a zone that goes back and forth has no more turns for that", "one of two nodes is lost, and the other one every second second", "a1 a2 b1", func(l *line) []string {
			l.is("a1", "? Ready")
			all := []string{l.pass(1)}
			for i := range 19 {
				l.is("a2", []string{"? Ready", "Ready"}[i%2])
				if turn := l.pass(1); turn != "" {
					all = append(all, fmt.Sprintf("after %d more: %s", i, turn))
				}
			}
			return all
		}, "a1 at 1/after 10 more: a2 at 1"},
		{"where that is from none to the usual rate, it has none", "two of five nodes are lost, and a third one every second second", "a1 a2 a3 a4 a5", func(l *line) (all []string) {
			for i := range 100 {
				l.is("a1", "? Ready")
				l.is("a2", "? Ready")
				l.is("a3", []string{"? Ready", "Ready"}[i%2])
				if i > 0 {
					all = append(all, l.pass(1))
				}
			}
			return []string{strings.Trim(strings.Join(all, ""), " ")}
		}, ""},
		{"a zone that the labels change has its line", "a node is lost, and is relabelled", "a1 a2 a3 b1 b2 b3", func(l *line) []string {
			l.is("a1", "? Ready")
			l.is("b1", "? Ready")
			l.pass(1)
			l.is("a2", "? Ready")
			l.is("a2", "? Ready", func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "b" })
			return []string{l.pass(100)}
		}, "a2 at 10"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, strings.Join(test.happens(newLine(defaults, strings.Fields(test.nodes)...)), "/"), "whose turn it is when, in seconds: %s", test.situation)
		})
	}
	t.Run("with a rate of zero nobody is evicted", func(t *testing.T) {
		t.Parallel()
		l := newLine(rates{large: 50, threshold: .55}, "a1", "a2", "a3")
		l.is("a1", "? Ready")
		assert.Empty(t, l.pass(1000))
	})
	t.Run("nor with one below zero", func(t *testing.T) {
		t.Parallel()
		l := newLine(rates{usual: -1, large: 50, threshold: .55}, "a1", "a2", "a3")
		l.is("a1", "? Ready")
		assert.Empty(t, l.pass(1000))
	})
	t.Run("with a rate that is next to nothing nobody is evicted", func(t *testing.T) {
		t.Parallel()
		l := newLine(rates{usual: 1e-30, large: 50, threshold: .55}, "a1", "a2", "a3")
		l.is("a1", "? Ready")
		assert.Empty(t, l.pass(1000))
	})
	t.Run("a zone that a leader finds has its first turn after ten seconds", func(t *testing.T) {
		t.Parallel()
		l := newLine(defaults)
		for _, name := range []string{"a1", "a2", "a3"} {
			l.is(name, "Ready")
		}
		l.is("a1", "? Ready")
		assert.Equal(t, "a1 at 10", l.pass(100), "the zone is new, and one of its nodes is lost already")
	})
	t.Run("a large zone that is partially lost is slower", func(t *testing.T) {
		t.Parallel()
		l := newLine(defaults)
		for i := range 60 {
			l.is(fmt.Sprintf("a%02d", i), []string{"Ready", "? Ready"}[min(i/20, 1)])
		}
		assert.Equal(t, "a20 at 101, a21 at 202", l.pass(300), "40 of 60 nodes are lost")
	})
}

func TestWhoeverChangesALineIsToldWhoIsToBeLookedAt(t *testing.T) {
	t.Parallel()
	l := newLine(defaults, "a1", "a2", "a3", "b1", "b2")
	assert.Empty(t, l.is("a1", "Ready"), "nobody waits")
	assert.Equal(t, "a1", l.is("a1", "? Ready"), "a1 is the first that waits")
	assert.Equal(t, "a1", l.is("a2", "? Ready"), "a1 is still the first, and the rate may be another one")
	assert.Equal(t, "b1", l.is("b1", "? Ready"), "b1 is the first of another zone")
	turn, next, wait := l.turn("a1", l.now)
	wait = wait.Round(time.Millisecond) // a float32 is not exact
	assert.Equal(t, []any{granted, "a2", 10 * time.Second}, []any{turn, next, wait}, "it is a1's turn, and a2's in ten seconds")
	turn, next, wait = l.turn("a2", l.now)
	wait = wait.Round(time.Millisecond)
	assert.Equal(t, []any{waits, "a2", 10 * time.Second}, []any{turn, next, wait}, "a2 waits for it")
	assert.Equal(t, []string{"b1"}, l.remove("b2", l.now), "b1 is still the first")
	assert.Equal(t, "a1 a2 a3 b1", l.is("a3", "? Ready"), "no node is ready any more")
	turn, next, _ = l.turn("a2", l.now)
	assert.Equal(t, []any{never, ""}, []any{turn, next})
	assert.Equal(t, "a1 a2 a3 b1", l.is("a3", "Ready"), "one is ready again")
	assert.Empty(t, l.remove("a2", l.now), "nobody waits in that zone")
	assert.Equal(t, "a1 a3 b1", strings.Join(slices.Sorted(mapsKeys(l.nodes)), " "))
}
