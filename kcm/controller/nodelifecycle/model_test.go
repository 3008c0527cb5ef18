package nodelifecycle

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
)

// model is a world with five nodes in two zones and two pods, in which anything may happen at any time:
// nodes fall silent and are heard again, or are made anew, users change taints and labels, watches are
// late, requests are refused or their answers lost, and another process leads. The judge goes by what
// the API server has.
type model struct {
	*world
	leads   time.Time // since when this process leads
	evicted int       // how many nodes it has evicted
	wrong   string
	trace   []string
}

// judge looks at each write of a node before it is done.
func (m *model) judge(resource, name string, patched runtime.Object) {
	if resource != "nodes" {
		return
	}
	node, there := patched.(*corev1.Node), stored(m.nodes.Get(name))
	if statusOf(node, corev1.NodeReady) == unsaid && statusOf(there, corev1.NodeReady) != unsaid && time.Since(m.beats[name]) < m.grace {
		m.broke("a node is called unknown that was heard less than a grace period ago: %s", name)
	}
	if evictsOf(node) && !evictsOf(there) {
		m.evicted++
		if !slices.ContainsFunc(m.nodeCache.Cached(), func(n *corev1.Node) bool { return countsAsReady(n) }) {
			m.broke("a node is evicted while none is ready: %s", name)
		}
		if zones := 3.; float64(m.evicted) > zones*(time.Since(m.leads).Seconds()/10+.1) {
			m.broke("%d nodes are evicted in %v", m.evicted, time.Since(m.leads))
		}
	}
	for _, taint := range there.Spec.Taints {
		if taint.Key == "example.com/gpu" && !slices.Contains(node.Spec.Taints, taint) {
			m.broke("a taint of somebody else's is gone: %s", name)
		}
	}
}

func evictsOf(node *corev1.Node) bool {
	return strings.Contains(inWords(node.Spec.Taints), "not-ready:NoExecute") || strings.Contains(inWords(node.Spec.Taints), "unreachable:NoExecute")
}

func doesCount(node *corev1.Node) bool {
	_, excluded := node.Labels["node.kubernetes.io/exclude-disruption"]
	return !excluded
}

func countsAsReady(node *corev1.Node) bool {
	return doesCount(node) && statusOf(node, corev1.NodeReady) == yes
}

func (m *model) broke(format string, args ...any) {
	if m.wrong == "" {
		m.wrong = fmt.Sprintf(format, args...)
	}
}

// pass lets time pass in steps of a heartbeat. A kubelet that lives says so of its node and its pods.
func (m *model) pass(seconds int) {
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); {
		m.at(time.Since(midnight) + min(10*time.Second, time.Until(end)))
		for name, alive := range m.alive {
			if alive {
				m.kubelet(name)
			}
		}
		m.show()
	}
}

func (m *model) kubelet(name string) {
	node := stored(m.nodes.Get(name))
	if status := statusOf(node, corev1.NodeReady); status == unsaid || status == "" {
		for _, what := range []string{"Ready", "not MemoryPressure", "not DiskPressure", "not PIDPressure"} {
			say(what)(node)
		}
		stored(m.nodes.Update(node))
		m.beats[name] = time.Now()
	}
	for _, pod := range m.pods.List() {
		if pod.Spec.NodeName == name && pod.Status.Conditions[0].Status != yes {
			pod.Status.Conditions[0].Status = yes
			stored(m.pods.Update(pod))
		}
	}
}

// step is what happens, and how things are then.
func (m *model) step(t *rapid.T, format string, args ...any) {
	m.rest(0)
	line := fmt.Sprintf("%s %s\n  now:", time.Now().UTC().Format(time.TimeOnly), fmt.Sprintf(format, args...))
	for _, node := range m.nodes.List() {
		line += fmt.Sprintf(" %s of %q (%v) Ready %s, %s;", node.Name, node.Labels[corev1.LabelTopologyZone], m.alive[node.Name], statusOf(node, corev1.NodeReady), inWords(node.Spec.Taints))
	}
	if m.trace = append(m.trace, line); m.wrong != "" {
		m.fail(t, m.wrong)
	}
}

func (m *model) fail(t *rapid.T, promise string) {
	t.Log(strings.Join(m.trace, "\n"))
	t.Log(strings.Join(m.story, "\n"))
	t.Fatal(promise)
}

// anything is what may happen.
func anything(m *model) map[string]func(*rapid.T) {
	nodes := rapid.SampledFrom([]string{"a1", "a2", "a3", "b1", "b2"})
	resources := rapid.SampledFrom([]string{"nodes", "leases", "pods"})
	return map[string]func(*rapid.T){
		"": func(t *rapid.T) { m.step(t, "so it is") },
		"a node falls silent": func(t *rapid.T) {
			name := nodes.Draw(t, "node")
			m.silence(name)
			m.step(t, "%s falls silent", name)
		},
		"a node is heard again": func(t *rapid.T) {
			name := nodes.Draw(t, "node")
			m.alive[name] = true
			m.step(t, "%s lives", name)
		},
		"a node says something": func(t *rapid.T) {
			name := nodes.Draw(t, "node")
			if !m.alive[name] {
				t.SkipNow()
			}
			m.beats[name] = time.Now()
			what := rapid.SampledFrom([]string{"Ready", "not Ready", "DiskPressure", "not DiskPressure"}).Draw(t, "what")
			status := statusOf(stored(m.nodes.Get(name)), corev1.NodeReady)
			m.node(name, say(saysOf(corev1.NodeReady, status)), say(what)) // a kubelet always says all
			m.step(t, "%s says %s", name, what)
		},
		"a user changes a node": func(t *rapid.T) {
			name := nodes.Draw(t, "node")
			what := rapid.IntRange(0, 5).Draw(t, "what")
			m.node(name, []func(*corev1.Node){
				tainted(), tainted(taint("example.com/gpu", noExec)), tainted(taint("unreachable", noExec), taint("not-ready", noSched)),
				func(n *corev1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable },
				func(n *corev1.Node) {
					n.Labels[corev1.LabelTopologyZone] = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone")
				},
				func(n *corev1.Node) { n.Labels["node.kubernetes.io/exclude-disruption"] = "" },
			}[what])
			m.step(t, "a user changes %s: %d", name, what)
		},
		"a node is made anew": func(t *rapid.T) {
			name := nodes.Draw(t, "node")
			_ = m.nodes.Delete(name)
			node := young(name)
			if rapid.Bool().Draw(t, "speaks") {
				node = well(name)[0].(*corev1.Node)
			}
			node.CreationTimestamp, node.Labels[corev1.LabelTopologyZone] = metav1.Now(), name[:1]
			m.beats[name] = time.Now()
			m.add(node)
			m.step(t, "there is another node of the name %s, with %d conditions", name, len(node.Status.Conditions))
		},
		"a watch is late or not": func(t *rapid.T) {
			resource := resources.Draw(t, "resource")
			m.late[resource] = !m.late[resource]
			m.step(t, "the watch of %s is late: %v", resource, m.late[resource])
		},
		"a few changes are shown": func(t *rapid.T) {
			few := rapid.IntRange(1, 5).Draw(t, "changes")
			told := rapid.IntRange(0, few).Draw(t, "told")
			m.nodeCache.Show(few)
			m.nodeCache.Tell(few)
			m.leaseCache.Show(few)
			m.leaseCache.Tell(told)
			m.podCache.Show(few)
			m.podCache.Tell(few)
			m.step(t, "a few changes are shown")
		},
		"time passes": func(t *rapid.T) {
			m.pass(rapid.IntRange(1, 120).Draw(t, "seconds"))
			m.step(t, "time passes")
		},
		"the API server refuses": func(t *rapid.T) {
			request := rapid.SampledFrom([]string{"patch nodes", "patch nodes/status", "patch pods/status", "list leases"}).Draw(t, "request")
			refusal := rapid.SampledFrom([]error{
				apierrors.NewForbidden(corev1.Resource("nodes"), "a1", errors.New("not now")),
				apierrors.NewConflict(corev1.Resource("nodes"), "a1", errors.New("not now")),
				apierrors.NewInternalError(errors.New("not now")),
			}).Draw(t, "refusal")
			m.refuse = func(asked string) error {
				if asked == request {
					return refusal
				}
				return nil
			}
			m.lost = rapid.Bool().Draw(t, "lost")
			m.step(t, "from now on %s is refused: %v; or only the answer is lost: %v", request, refusal, m.lost)
		},
		"the API server grants": func(t *rapid.T) {
			m.refuse = func(string) error { return nil }
			m.step(t, "all is granted")
		},
		"another process leads": func(t *rapid.T) {
			m.lead()
			m.step(t, "another process leads")
		},
	}
}

func (m *model) lead() {
	m.leads, m.evicted = time.Now(), 0
	m.restart()
}

// comeToRest lets all be well, and wants all to be as it is to be, and then no request.
func (m *model) comeToRest(t *rapid.T) {
	m.refuse, m.late = func(string) error { return nil }, map[string]bool{}
	m.pass(1800)
	m.step(t, "half an hour passes, and all is well")
	before := m.requests
	m.pass(1800)
	m.step(t, "another half hour passes")
	if m.requests > before {
		m.fail(t, "it does not come to rest")
	}
	for _, node := range m.nodes.List() {
		m.checkNode(t, node)
	}
	for _, pod := range m.pods.List() {
		if !m.alive[pod.Spec.NodeName] && pod.Status.Conditions[0].Status == yes {
			m.fail(t, "a pod of a silent node is ready: "+pod.Name)
		}
	}
}

// checkNode wants a node to be as its kubelet says, or unknown if it is silent, and to have the taints
// that this means. Whether a lost one of a zone that is partially lost is evicted is not said: that may
// have been before.
func (m *model) checkNode(t *rapid.T, node *corev1.Node) {
	ready := statusOf(node, corev1.NodeReady)
	if m.alive[node.Name] != (ready != unsaid) {
		m.fail(t, "a node lives and is unknown, or is silent and is not: "+node.Name)
	}
	for _, wanted := range []struct {
		taint string
		cause bool
	}{
		{"not-ready:NoSchedule", ready == no},
		{"unreachable:NoSchedule", ready == unsaid},
		{"disk-pressure:NoSchedule", statusOf(node, corev1.NodeDiskPressure) == yes},
		{"unschedulable:NoSchedule", node.Spec.Unschedulable},
	} {
		if strings.Contains(inWords(node.Spec.Taints), wanted.taint) != wanted.cause {
			m.fail(t, fmt.Sprintf("the taint %s is on a node without its cause, or is not with it: %s", wanted.taint, node.Name))
		}
	}
	all, same := m.nodes.List(), func(n *corev1.Node) bool {
		return doesCount(n) && n.Labels[corev1.LabelTopologyZone] == node.Labels[corev1.LabelTopologyZone]
	}
	lost, size := 0, 0
	for _, n := range slices.DeleteFunc(slices.Clone(all), func(n *corev1.Node) bool { return !same(n) }) {
		if size++; !countsAsReady(n) {
			lost++
		}
	}
	isPartial := lost > 2 && lost < size && float64(lost)/float64(size) >= .55
	nobody := slices.ContainsFunc(all, doesCount) && !slices.ContainsFunc(all, countsAsReady)
	switch is := evictsOf(node); {
	case is && (ready == yes || nobody):
		m.fail(t, "a node is evicted that is ready, or while none is: "+node.Name)
	case !is && ready != yes && !nobody && !isPartial:
		m.fail(t, "a lost node is not evicted: "+node.Name)
	}
}

// However late its watches are, whatever is refused, and whichever process leads: no node is called
// unknown that was heard, none is evicted while no node is ready, or faster than it may be, and in the
// end all is as it is to be.
func TestWhateverHappensNodesAreAsTheyAreHeard(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		inBubble(t, func() {
			m := &model{world: newWorld(), leads: time.Now()}
			m.asked = m.judge
			for _, name := range []string{"a1", "a2", "a3", "b1", "b2"} {
				node := well(name)[0].(*corev1.Node)
				node.Labels[corev1.LabelTopologyZone] = name[:1]
				m.add(node)
				m.beats[name] = time.Now()
			}
			m.add(testPod("web", "a1", yes))
			m.add(testPod("db", "b1", yes))
			m.run(func() {
				rt.Repeat(anything(m))
				m.comeToRest(rt)
			})
		})
	})
}

// inBubble runs body in a bubble. What it panics with, as a model does that fails, is the caller's.
func inBubble(t *testing.T, body func()) {
	var panicked any
	synctest.Test(t, func(*testing.T) {
		defer func() { panicked = recover() }()
		body()
	})
	if panicked != nil {
		panic(panicked)
	}
}
