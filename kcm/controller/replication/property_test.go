package replication

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// drawModel returns a cluster in some state, in which the loop has just been
// started.
func drawModel(t *rapid.T) *model {
	m := newModel(rapid.Int32Range(0, 4).Draw(t, "replicas"), rapid.IntRange(1, 4).Draw(t, "burst"), rapid.Bool().Draw(t, "cachesTell"))
	states := rapid.SampledFrom([]string{"", starts, falter, fails, killed})
	for _, state := range rapid.SliceOfN(states, 0, 4).Draw(t, "pods") {
		pod := m.addPod(podOf("web-1", func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = m.set().UID }))
		if state == falter || state == killed {
			m.live(pod, starts)
			pod = stored(m.pods.Get(pod.Name))
		}
		m.live(pod, state)
	}
	m.start(t, 0)
	m.note("the loop starts")
	return m
}

// anything is what may happen, at any time.
func anything(m *model) map[string]func(*rapid.T) {
	few := rapid.IntRange(1, 3)
	return map[string]func(*rapid.T){
		"the loop syncs": func(t *rapid.T) {
			m.sync(t, answers{how: well, late: rapid.Bool().Draw(t, "late")})
		},
		"the loop syncs in trouble": func(t *rapid.T) {
			m.sync(t, answers{
				how:   rapid.SampledFrom([]outcome{refused, unsure}).Draw(t, "how"),
				after: rapid.IntRange(0, 2).Draw(t, "after"),
				late:  rapid.Bool().Draw(t, "late"),
			})
		},
		"pods are shown": func(t *rapid.T) {
			if unshown, _ := m.podCache.Behind(); unshown == 0 {
				t.SkipNow()
			}
			m.podCache.Show(few.Draw(t, "changes"))
			m.note("changes of pods reach the cache")
		},
		"the loop is told": func(t *rapid.T) {
			if _, untold := m.podCache.Behind(); untold == 0 {
				t.SkipNow()
			}
			m.podCache.Tell(few.Draw(t, "changes"))
			m.note("the loop is told of changes in the cache")
		},
		"the set is shown": func(t *rapid.T) {
			m.setCache.CatchUp()
			m.note("the loop sees the set as it is")
		},
		"the watch breaks": func(t *rapid.T) {
			m.relist()
			m.note("the watch breaks, pods are listed anew")
		},
		"pods live": func(t *rapid.T) {
			for range few.Draw(t, "changes") {
				m.liveAtRandom(t)
			}
		},
		"the user scales": func(t *rapid.T) {
			m.scale(rapid.Int32Range(0, 4).Draw(t, "to"))
			m.note("the user scales")
		},
		"a rare thing": func(t *rapid.T) {
			if m.cachesTell && rapid.Bool().Draw(t, "wait") {
				m.wait()
			} else if rapid.Bool().Draw(t, "restart") {
				m.restart(t)
			}
		},
		"the process is killed in the middle of a sync": func(t *rapid.T) {
			m.sync(t, answers{how: cutOff, after: rapid.IntRange(0, 3).Draw(t, "after")})
			m.restart(t)
		},
	}
}

// restart has another process lead, whose caches may be older than those of the
// one before.
func (m *model) restart(t *rapid.T) {
	m.start(t, rapid.IntRange(0, 4).Draw(t, "behind"))
	m.note("another process leads: the loop starts anew")
}

// liveAtRandom lets something happen to one of the pods.
func (m *model) liveAtRandom(t *rapid.T) {
	pods := m.pods.List()
	if len(pods) == 0 {
		return
	}
	pod := pods[rapid.IntRange(0, len(pods)-1).Draw(t, "pod")]
	what := rapid.SampledFrom([]string{starts, falter, fails, killed, ends, freed}).Draw(t, "what")
	if m.live(pod, what) {
		m.note("%s %s", pod.Name, what)
	}
}

// Whatever is late, lost or refused, and whichever process leads: the loop
// never creates a pod for one that is there and never deletes one that is
// needed. When the disturbance has ended it arrives in as many syncs as it has
// bursts to do, and three more. The model checks the first at every request.
//
// One thing the loop cannot know is what became of a request that was never
// answered. Each of these may cost one pod too many, or too few, until the
// cache shows it.
func TestTheLoopOnALateCache(t *testing.T) {
	t.Parallel()
	t.Run("whatever is late, lost or refused, no pod is created twice and none that is needed goes", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			m := drawModel(t)
			t.Repeat(anything(m))
			m.comeToRest(t)
		})
	})
	// The same for deletions alone, which takes more pods and fewer kinds of
	// events. A deletion is notified twice, and the second time may fall into
	// the wait for the deletion of another pod.
	t.Run("while some pods go, those that are needed stay", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			m := shrinkingModel(t)
			t.Repeat(shrinking(m))
			m.comeToRest(t)
		})
	})
}

// Where the promise ends: an expectation counts creations, and knows no names. A process
// that begins with a cache that is behind is told late of a pod that another process has
// made and deleted, and takes that for the news that it waits for. Two things keep a
// manager from it: its caches begin with the newest list, and they tell their version.
func TestOnlyALoopThatJustCountsTakesALateOldPodForItsNewOne(t *testing.T) {
	t.Parallel()
	for cachesTell, want := range map[bool]int{false: 2, true: 1} {
		rapid.Check(t, func(t *rapid.T) { // which draws nothing
			m := newModel(1, 1, cachesTell)
			m.start(t, 0)
			m.scale(0)
			m.sync(t, answers{how: cutOff, after: 1}) // makes the first pod, for it has not seen that none is wanted
			m.start(t, 0)
			m.sync(t, answers{how: cutOff, after: 1}) // deletes it
			m.start(t, 2)                             // and begins with what was there before both
			m.podCache.Show(2)
			m.sync(t, answers{how: refused, after: 1}) // makes its own pod
			m.podCache.Tell(1)                         // of the first pod, which is one new pod
			m.sync(t, answers{how: well})
			if have := len(m.active()); have != want {
				m.fail(t, "the promise ends elsewhere", "Of 1 pod there are %d, and %d were expected, with caches that tell their version: %t", have, want, cachesTell)
			}
		})
	}
}

// shrinkingModel returns a cluster with six pods, all of them ready.
func shrinkingModel(t *rapid.T) *model {
	m := newModel(6, 6, false)
	for range 6 {
		m.live(m.addPod(podOf("web-1", func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = m.set().UID })), starts)
	}
	m.start(t, 0)
	m.note("the loop starts")
	return m
}

// shrinking is what may happen to a set that is only scaled down.
func shrinking(m *model) map[string]func(*rapid.T) {
	actions := anything(m)
	return map[string]func(*rapid.T){
		"the loop syncs":   actions["the loop syncs"],
		"pods are shown":   actions["pods are shown"],
		"the loop is told": actions["the loop is told"],
		"pods live":        actions["pods live"],
		"the user scales down": func(t *rapid.T) {
			m.scale(max(0, *m.set().Spec.Replicas-rapid.Int32Range(1, 2).Draw(t, "by")))
			m.setCache.CatchUp()
			m.note("the user scales, and the loop sees it")
		},
	}
}
