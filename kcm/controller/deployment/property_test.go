package deployment

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"pgregory.net/rapid"
)

func drawRolling(t *rapid.T) *appsv1.Deployment {
	d := rolling(rapid.Int32Range(1, 12).Draw(t, "replicas"), drawBound(t, "maxSurge"), drawBound(t, "maxUnavailable"))
	d.Spec.RevisionHistoryLimit = new(rapid.Int32Range(0, 2).Draw(t, "history"))
	return d
}

// anything is what may happen to a deployment that no user touches.
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
			})
		},
		"the process is killed in the middle of a sync": func(t *rapid.T) {
			m.sync(t, answers{how: killed, after: rapid.IntRange(0, 2).Draw(t, "after")})
			m.restart(t)
		},
		"pods are shown": func(t *rapid.T) {
			if unshown, _ := m.podCache.Behind(); unshown == 0 {
				t.SkipNow()
			}
			m.podCache.Show(few.Draw(t, "changes"))
			m.note("changes of pods reach the cache")
		},
		"ReplicaSets are shown": func(t *rapid.T) {
			if unshown, _ := m.replicaSetCache.Behind(); unshown == 0 {
				t.SkipNow()
			}
			m.replicaSetCache.Show(few.Draw(t, "changes"))
			m.note("changes of ReplicaSets reach the cache")
		},
		"the deployment is shown": func(*rapid.T) { m.showDeployment() },
		"the loop for ReplicaSets syncs": func(t *rapid.T) {
			for range few.Draw(t, "syncs") {
				if all := m.replicaSets.List(); len(all) > 0 {
					m.syncReplicaSet(all[rapid.IntRange(0, len(all)-1).Draw(t, "of")].Name)
				}
			}
		},
		"pods live": func(t *rapid.T) {
			for range few.Draw(t, "pods") {
				if pods := m.pods.List(); len(pods) > 0 {
					m.live(pods[rapid.IntRange(0, len(pods)-1).Draw(t, "pod")])
				}
			}
		},
		"a rare thing": func(t *rapid.T) {
			switch rapid.SampledFrom([]string{"restart", "ReplicaSets", "deployments", "pods"}).Draw(t, "what") {
			case "restart":
				m.restart(t)
			case "ReplicaSets":
				m.replicaSetCache.Relist()
			case "deployments":
				m.catchUpBeforeSpec()
				m.deploymentCache.Relist()
			case "pods":
				m.podCache.Relist()
			}
			m.note("another process leads, or a watch breaks and something is listed anew")
		},
	}
}

// restart has another process lead, whose caches may be older than those of the
// one before. It does not know what that one has written.
func (m *model) restart(t *rapid.T) {
	m.start(t, rapid.IntRange(0, 4).Draw(t, "behind"))
	m.unsure = true
	m.note("another process leads: the loop starts anew")
}

// showDeployment shows the loop the deployment. A new spec may come before what
// the loop has written under the former one: it waits for that. But of a write
// whose answer was lost, or that another process has made, the loop does not know,
// and without it it does not count the pods of a ReplicaSet that was just created.
// So such a write is shown first. Within one spec it may be as late as it likes:
// the new ReplicaSet only grows and the others only shrink, so a sum of old sizes
// is too large rather than too small.
func (m *model) showDeployment() {
	m.catchUpBeforeSpec()
	m.deploymentCache.CatchUp()
	m.note("the deployment reaches the cache")
}

func (m *model) catchUpBeforeSpec() {
	if m.deploymentCache.Cached()[0].Generation == m.deployment().Generation {
		return
	}
	m.recent.CatchUp()
	if m.unsure {
		m.replicaSetCache.CatchUp()
		m.unsure = false
	}
}

// report lets the loop for ReplicaSets act on all sizes, and then tell of it.
func (m *model) report() {
	for _, rs := range slices.Repeat(m.replicaSets.List(), 2) {
		m.syncReplicaSet(rs.Name)
	}
}

// Whatever is late, refused or left without an answer, and with versions whose
// pods never start: never are more pods asked for, nor fewer available, than
// the spec promises, and the rollout ends. The model checks the first at every
// write.
//
// One promise depends on the user. Only another template makes a ReplicaSet
// that has shrunk grow again. One that does so before its own loop has told of
// the small size still tells of pods that are gone, and nothing in the API shows
// that. So the next template here comes, and is seen, after that loop has
// reported.
func TestARollingUpdateOnLateCaches(t *testing.T) {
	t.Parallel()
	t.Run("a rolling update stays within its bounds and ends", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			m := newModel(t, drawRolling(t))
			m.comeToRest(t)
			actions := anything(m)
			actions["the user rolls out"] = func(t *rapid.T) {
				m.report()
				m.rollOut(rapid.SampledFrom([]string{"v1", "v2", "v3", broken}).Draw(t, "version"))
				m.showDeployment()
			}
			actions[""] = m.checkAvailable
			t.Repeat(actions)
			m.rollOut("v9")
			m.comeToRest(t)
		})
	})
}

// The same without the promise about available pods, which scaling does not
// keep, for users who scale, pause, resume and roll out at any moment, and for
// others who resize ReplicaSets behind their back.
func TestADeploymentOnLateCaches(t *testing.T) {
	t.Parallel()
	t.Run("a deployment arrives whatever is done to it", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			m := newModel(t, drawRolling(t))
			actions := anything(m)
			actions["the user rolls out"] = func(t *rapid.T) {
				m.rollOut(rapid.SampledFrom([]string{"v1", "v2", "v3", broken}).Draw(t, "version"))
			}
			actions["the user scales"] = func(t *rapid.T) { m.scale(rapid.Int32Range(0, 12).Draw(t, "to")) }
			actions["the user pauses"] = func(t *rapid.T) { m.pause(rapid.Bool().Draw(t, "paused")) }
			actions["somebody resizes"] = func(t *rapid.T) {
				if all := m.replicaSets.List(); len(all) > 0 {
					m.resize(all[rapid.IntRange(0, len(all)-1).Draw(t, "of")], rapid.Int32Range(0, 6).Draw(t, "to"))
				}
			}
			t.Repeat(actions)
			m.pause(false)
			m.rollOut("v9")
			m.comeToRest(t)
		})
	})
}

// Recreate keeps its promise as well when it is paused, scaled or given another
// template in the middle.
func TestRecreateOnLateCaches(t *testing.T) {
	t.Parallel()
	t.Run("Recreate never has pods of two versions and ends", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			m := newModel(t, recreating(rapid.Int32Range(1, 4).Draw(t, "replicas")))
			for _, version := range []string{"v1", "v2"} {
				m.rollOut(version)
				m.comeToRest(t)
			}
			actions := anything(m)
			actions["the user rolls out"] = func(t *rapid.T) {
				m.rollOut(rapid.SampledFrom([]string{"v1", "v2", broken}).Draw(t, "version"))
			}
			actions["the user scales"] = func(t *rapid.T) { m.scale(rapid.Int32Range(0, 4).Draw(t, "to")) }
			actions["the user pauses"] = func(t *rapid.T) { m.pause(rapid.Bool().Draw(t, "paused")) }
			actions[""] = m.checkOneVersion
			t.Repeat(actions)
			m.pause(false)
			m.rollOut("v9")
			m.comeToRest(t)
		})
	})
}
