package nodelifecycle

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"
	nodeutil "k8s.io/component-helpers/node/util"
)

// rates are how many nodes of a zone may be evicted in a second.
type rates struct {
	usual, secondary float32
	large            int     // a zone with more nodes than that is large
	threshold        float32 // which share of nodes that are not ready is a disruption
}

// of returns how many nodes a second may be evicted of a zone, for how many it has and how many of them
// are not ready.
func (r rates) of(nodes, notReady int) float32 {
	// In a partial disruption it is likelier that something between the nodes and this process is broken
	// than that many machines. In a full one the zone is lost, whatever the reason.
	switch share := float32(notReady) / float32(nodes); {
	case notReady < 3 || notReady == nodes || share < r.threshold:
		return r.usual
	case nodes > r.large:
		return r.secondary
	}
	return 0
}

// turn tells whether the pods of a node may be evicted if it is lost.
type turn string

const (
	waits   turn = "it waits for its turn"
	granted turn = "it is its turn"
	never   turn = "nobody is evicted"
)

// zones counts the nodes of each zone, and has those that are lost wait in line. Whoever changes
// something is told which nodes are to be looked at for that.
type zones struct {
	rates rates

	mu     sync.Mutex
	nodes  map[string]member
	byName map[string]*zone
	all    counts
	dark   bool // no node is ready
}

type counts struct{ nodes, notReady int }

func (c *counts) add(m member, times int) {
	c.nodes += times * m.nodes
	c.notReady += times * m.notReady
}

type zone struct {
	counts
	rate float32
	last time.Time            // when it had its last turn, or when turns have begun
	line map[string]time.Time // the nodes that wait, and since when they are lost
}

// member is what counts of a node.
type member struct {
	counts  // one or none
	zone    string
	lost    bool // and nobody has asked for the eviction of its pods yet
	since   time.Time
	hasTurn bool // turn sets it
}

// excludeLabel is on nodes that do not count, though their pods are evicted as all others.
const excludeLabel = "node.kubernetes.io/exclude-disruption"

func newZones(rates rates) *zones {
	return &zones{rates: rates, nodes: map[string]member{}, byName: map[string]*zone{}}
}

// memberOf returns what counts of a node in its zone, and whether it is lost, and since when.
func memberOf(node *corev1.Node) member {
	m := member{zone: topology.GetZoneKey(node)}
	_, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	if _, excluded := node.Labels[excludeLabel]; !excluded {
		m.nodes = 1
		if ready == nil || ready.Status != corev1.ConditionTrue {
			m.notReady = 1
		}
	}
	// An excluded node does not count, and is evicted as others are.
	if ready != nil && (ready.Status == corev1.ConditionFalse || ready.Status == corev1.ConditionUnknown) {
		m.lost = !slices.ContainsFunc(node.Spec.Taints, evicts)
		m.since = ready.LastTransitionTime.Time
	}
	return m
}

// put counts a node as it is now.
func (z *zones) put(node *corev1.Node, now time.Time) (wake []string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	was, m := z.nodes[node.Name], memberOf(node)
	z.leave(node.Name)
	to := z.byName[m.zone]
	if to == nil {
		to = &zone{line: map[string]time.Time{}}
		z.byName[m.zone] = to
		evictions.WithLabelValues(m.zone).Add(0)
	}
	to.add(m, 1)
	z.all.add(m, 1)
	if m.hasTurn = m.lost && was.hasTurn; m.lost && !m.hasTurn {
		to.line[node.Name] = m.since
	}
	z.nodes[node.Name] = m
	return z.settle(now, was.zone, m.zone)
}

// remove forgets a node that is gone.
func (z *zones) remove(name string, now time.Time) (wake []string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	zone := z.nodes[name].zone
	z.leave(name)
	return z.settle(now, zone)
}

func (z *zones) leave(name string) {
	if m, ok := z.nodes[name]; ok {
		z.byName[m.zone].add(m, -1)
		z.all.add(m, -1)
		delete(z.byName[m.zone].line, name)
		delete(z.nodes, name)
	}
}

// settle brings the rates of zones up to date, and returns who is first in their lines, as it may be
// the turn of another one now, or sooner. When the last node that was ready is not any more, and when
// one is again, that concerns all nodes. While there were no turns, none was saved up.
func (z *zones) settle(now time.Time, names ...string) (wake []string) {
	for _, name := range names {
		zone := z.byName[name]
		if zone == nil {
			continue
		}
		if zone.rate <= 0 {
			zone.last = now
		}
		zone.rate = z.rates.of(zone.nodes, zone.notReady)
		observeZone(name, zone.counts)
		if first := zone.first(); first != "" {
			wake = append(wake, first)
		}
	}
	if dark := z.all.nodes > 0 && z.all.notReady == z.all.nodes; dark != z.dark {
		z.dark = dark
		for _, zone := range z.byName {
			zone.last = now
		}
		wake = slices.Collect(maps.Keys(z.nodes))
	}
	return wake
}

// turn tells whether a node may be evicted, and gives it the turn if it is its. It also returns who
// is first in the line of its zone from now on, and in what time it will be its turn: nobody if the
// node has its turn already, or if there are no turns.
func (z *zones) turn(name string, now time.Time) (t turn, next string, wait time.Duration) {
	z.mu.Lock()
	defer z.mu.Unlock()
	m := z.nodes[name]
	zone := z.byName[m.zone]
	switch {
	case z.dark:
		return never, "", 0
	case m.hasTurn:
		return granted, "", 0
	case !m.lost || zone.rate <= 0:
		return waits, "", 0
	}
	t = waits
	if zone.first() == name && zone.wait(now) <= 0 {
		t, zone.last, m.hasTurn = granted, now, true
		z.nodes[name] = m
		delete(zone.line, name)
	}
	return t, zone.first(), zone.wait(now)
}

// first returns the node that is lost for longest, of several the first by name, or nothing. The next
// leader finds the same one.
func (z *zone) first() (first string) {
	for name, since := range z.line {
		if first == "" || cmp.Or(since.Compare(z.line[first]), cmp.Compare(name, first)) < 0 {
			first = name
		}
	}
	return first
}

// wait returns how long it is until the next turn of a zone that has turns: zero or less if it may
// be now.
func (z *zone) wait(now time.Time) time.Duration {
	interval := min(float64(time.Second)/float64(z.rate), 1<<62) // which is 146 years
	return z.last.Add(time.Duration(interval)).Sub(now)
}
