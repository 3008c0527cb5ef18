package tainteviction

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// model is a world with two nodes and three pods, in which anything may happen at any time: users and
// node-lifecycle change taints, caches are late, requests are refused or their answers lost, and
// another process leads. The judge goes by what the API server has had.
type model struct {
	*world
	since map[string][]seen // by node, the taints that count, and since when the API server has had them
	wrong string
	trace []string
}

type seen struct {
	taint corev1.Taint
	from  time.Time
}

// note has the judge know the taints of a node. One that is off counts as long as the loop may not
// have been shown that it was: what comes next may look like the same one, or like what a node that
// was not ready falls silent by.
func (m *model) note(name string, now time.Time) {
	node := stored(m.nodes.Get(name))
	shown := node.Spec.Taints
	for _, cached := range m.nodeCache.Cached() {
		if cached.Name == name {
			shown = append(slices.Clone(shown), cached.Spec.Taints...)
		}
	}
	lost := slices.ContainsFunc(shown, isOfLost)
	m.since[name] = slices.DeleteFunc(m.since[name], func(s seen) bool {
		there := func(t corev1.Taint) bool { return equality.Semantic.DeepEqual(s.taint, t) }
		return !slices.ContainsFunc(shown, there) && !(lost && isOfLost(s.taint))
	})
	for _, taint := range node.Spec.Taints {
		there := func(s seen) bool { return equality.Semantic.DeepEqual(s.taint, taint) }
		if !slices.ContainsFunc(m.since[name], there) {
			from := now
			if taint.TimeAdded != nil && taint.TimeAdded.Time.Before(now) {
				from = taint.TimeAdded.Time
			}
			m.since[name] = append(m.since[name], seen{taint, from})
		}
	}
}

func isOfLost(t corev1.Taint) bool {
	return strings.HasPrefix(t.Key, "node.kubernetes.io/")
}

// judge wants each deletion to be of a pod that did not tolerate a taint of its node any more, as far
// as the loop could know: it looks at the node, and not at the pod.
func (m *model) judge(pod *corev1.Pod, options metav1.DeleteOptions) {
	now, known := time.Now(), pod
	for _, cached := range m.podCache.Cached() {
		if cached.UID == pod.UID {
			known = cached
		}
	}
	node, err := m.nodes.Get(known.Spec.NodeName)
	switch {
	case *options.Preconditions.UID != pod.UID:
		m.broke("a pod was deleted that was not meant")
	case known.DeletionTimestamp != nil:
		m.broke("a pod was deleted twice")
	case err != nil || !m.mayGo(known, node, now):
		m.broke("a pod was deleted too early")
	}
}

// mayGo tells whether the time of a pod is up by one of the taints of its node, or by what that has replaced.
func (m *model) mayGo(pod *corev1.Pod, node *corev1.Node, now time.Time) bool {
	for _, taint := range node.Spec.Taints {
		for _, s := range m.since[node.Name] {
			stands := equality.Semantic.DeepEqual(s.taint, taint) || isOfLost(s.taint) && isOfLost(taint)
			if seconds := m.seconds(pod, s.taint); !stands || seconds < 0 || m.seconds(pod, taint) < 0 {
				continue
			} else if from := s.from; !now.Before(later(from, boundAt(pod)).Add(time.Duration(seconds) * time.Second)) {
				return true
			}
		}
	}
	return false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// seconds is how long a pod of the model tolerates a taint: -1 is for ever.
func (m *model) seconds(pod *corev1.Pod, taint corev1.Taint) int64 {
	for _, t := range pod.Spec.Tolerations {
		if t.Key == taint.Key && t.TolerationSeconds == nil {
			return -1
		} else if t.Key == taint.Key {
			return max(*t.TolerationSeconds, 0)
		}
	}
	return 0
}

func (m *model) broke(format string, args ...any) {
	if m.wrong == "" {
		m.wrong = fmt.Sprintf(format, args...)
	}
}

// step is what happens, and how things are then.
func (m *model) step(t *rapid.T, format string, args ...any) {
	m.rest(0)
	for _, node := range m.nodes.List() {
		m.note(node.Name, time.Now())
	}
	line := fmt.Sprintf("%s %s\n  now:", time.Now().UTC().Format(time.DateTime), fmt.Sprintf(format, args...))
	for _, node := range m.nodes.List() {
		for _, taint := range node.Spec.Taints {
			line += fmt.Sprintf(" %s: %s since %v;", node.Name, taint.Key, taint.TimeAdded)
		}
	}
	for _, pod := range m.pods.List() {
		line += fmt.Sprintf(" %s on %s:", pod.UID, pod.Spec.NodeName)
		for _, toleration := range pod.Spec.Tolerations {
			line += fmt.Sprintf(" %s for %d,", toleration.Key, *cmpOr(toleration.TolerationSeconds))
		}
	}
	line += "\n  so far: " + strings.Join(m.story, "; ")
	if m.trace = append(m.trace, line); m.wrong != "" {
		m.fail(t, m.wrong)
	}
}

func cmpOr(n *int64) *int64 {
	if n == nil {
		return new(int64(-1))
	}
	return n
}

func (m *model) fail(t *rapid.T, promise string) {
	t.Log(strings.Join(m.trace, "\n"))
	t.Fatal(promise)
}

func drawTaints(t *rapid.T) []corev1.Taint {
	all := []corev1.Taint{}
	for _, key := range rapid.SampledFrom([][]string{nil, nil, {notReady}, {notReady}, {unreachable}, {unreachable}, {"a"}, {unreachable, "a"}}).Draw(t, "taints") {
		taint := undated(key)
		if key != "a" || rapid.Bool().Draw(t, "dated") {
			ago := rapid.SampledFrom([]int{0, 0, 0, 60, 3600, -3600}).Draw(t, "seconds ago")
			taint.TimeAdded = new(metav1.NewTime(time.Now().Add(-time.Duration(ago) * time.Second)))
		}
		all = append(all, taint)
	}
	return all
}

func drawTolerations(t *rapid.T) (all []corev1.Toleration) {
	for _, key := range []string{notReady, unreachable, "a"} {
		switch seconds := rapid.SampledFrom([]int64{300, 300, 60, 0, -1, -2}).Draw(t, key); seconds {
		case -2:
		case -1:
			all = append(all, always(key))
		default:
			all = append(all, bears(key, seconds))
		}
	}
	return all
}

var refusals = []error{
	apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("not now")),
	apierrors.NewConflict(corev1.Resource("pods"), "web", errors.New("not now")),
	apierrors.NewInternalError(errors.New("not now")),
}

// anything is what may happen.
func anything(m *model) map[string]func(*rapid.T) {
	nodes, pods := rapid.SampledFrom([]string{"node-1", "node-2"}), rapid.SampledFrom([]string{"web-0", "web-1", "web-2"})
	return map[string]func(*rapid.T){
		"": func(t *rapid.T) { m.step(t, "so it is") },
		"taints change": func(t *rapid.T) {
			taints := drawTaints(t)
			m.changeNode(nodes.Draw(t, "node"), tainted(taints...))
			m.step(t, "taints change")
		},
		"tolerations change": func(t *rapid.T) {
			pod, err := m.pods.Get(pods.Draw(t, "pod"))
			if err != nil {
				t.SkipNow()
			}
			pod.Spec.Tolerations = drawTolerations(t)
			stored(m.pods.Update(pod))
			m.step(t, "a pod tolerates something else")
		},
		"a pod comes": func(t *rapid.T) {
			pod := testPod(pods.Draw(t, "pod"), drawTolerations(t)...)
			if _, err := m.pods.Get(pod.Name); err == nil {
				t.SkipNow()
			}
			pod.Spec.NodeName, pod.CreationTimestamp = nodes.Draw(t, "node"), metav1.Now()
			if rapid.Bool().Draw(t, "waits") {
				pod.Spec.NodeName = ""
			}
			m.add(pod)
			m.step(t, "a pod comes")
		},
		"a pod is bound": func(t *rapid.T) {
			pod, err := m.pods.Get(pods.Draw(t, "pod"))
			if err != nil || pod.Spec.NodeName != "" {
				t.SkipNow()
			}
			bound(nodes.Draw(t, "node"))(pod)
			stored(m.pods.Update(pod))
			m.step(t, "a pod is bound")
		},
		"a pod is gone": func(t *rapid.T) {
			_ = m.pods.Delete(pods.Draw(t, "pod"))
			m.step(t, "a pod is gone")
		},
		"nodes are shown": func(t *rapid.T) {
			m.nodeCache.Show(rapid.IntRange(1, 3).Draw(t, "changes"))
			m.nodeCache.Tell(rapid.IntRange(0, 3).Draw(t, "told"))
			m.step(t, "changes of nodes are shown")
		},
		"pods are shown": func(t *rapid.T) {
			m.podCache.Show(rapid.IntRange(1, 3).Draw(t, "changes"))
			m.podCache.Tell(rapid.IntRange(0, 3).Draw(t, "told"))
			m.step(t, "changes of pods are shown")
		},
		"watches break": func(t *rapid.T) {
			m.nodeCache.Relist()
			m.podCache.Relist()
			m.nodeCache.CatchUp()
			m.podCache.CatchUp()
			m.step(t, "watches break, and there are new lists")
		},
		"time passes": func(t *rapid.T) {
			m.rest(time.Duration(rapid.IntRange(1, 200).Draw(t, "seconds")) * time.Second)
			m.step(t, "time passes")
		},
		"the API server refuses": func(t *rapid.T) {
			request := rapid.SampledFrom(may[:3]).Draw(t, "request")
			refusal := rapid.SampledFrom(refusals).Draw(t, "refusal")
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
			m.restart()
			m.step(t, "another process leads")
		},
	}
}

// comeToRest lets all be well, and wants each pod to be gone that has to, and then no request.
func (m *model) comeToRest(t *rapid.T) {
	m.refuse = func(string) error { return nil }
	for range 3 {
		m.show()
		m.rest(2 * time.Hour)
		m.step(t, "two hours pass, and all is well")
	}
	m.show()
	before := m.requests
	m.rest(2 * time.Hour)
	m.step(t, "two more hours pass")
	if m.requests > before {
		m.fail(t, "it does not come to rest")
	}
	for _, pod := range m.pods.List() {
		if pod.Spec.NodeName == "" {
			continue
		}
		node := stored(m.nodes.Get(pod.Spec.NodeName))
		for _, taint := range node.Spec.Taints {
			if pod.DeletionTimestamp == nil && m.seconds(pod, taint) >= 0 {
				m.fail(t, "a pod stays that has to go: "+pod.Name)
			}
		}
	}
}

// However late its caches are, whatever is refused, and whichever process leads: no pod goes too
// early, none is deleted that was not meant, and in the end each that has to is gone.
func TestPodsGoWhenTheirTimeIsUpAndNotBefore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		inBubble(t, func() {
			m := &model{world: newWorld(), since: map[string][]seen{}}
			m.asked = m.judge
			m.slow = rapid.Bool().Draw(rt, "slow")
			m.add(testNode("node-1"))
			m.add(testNode("node-2"))
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
