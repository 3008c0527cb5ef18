package deployment

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// drawBound returns a maxSurge or maxUnavailable.
func drawBound(t *rapid.T, label string) string {
	return rapid.SampledFrom([]string{"0", "1", "2", "5", "10%", "25%", "60%", "100%"}).Draw(t, label)
}

func drawRolling(t *rapid.T) *appsv1.Deployment {
	d := rolling(rapid.Int32Range(1, 12).Draw(t, "replicas"), drawBound(t, "maxSurge"), drawBound(t, "maxUnavailable"))
	d.Spec.RevisionHistoryLimit = new(rapid.Int32Range(0, 2).Draw(t, "history"))
	return d
}

// promised returns how many pods the API documentation promises to be available
// at least and to be asked for at most, reckoned once more: a percentage of
// surge is rounded up, one of unavailable pods down, and one pod may be
// unavailable if both come to nothing.
func promised(d *appsv1.Deployment) (least, most int32) {
	wanted := *d.Spec.Replicas
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return wanted, wanted
	}
	of := func(bound *intstr.IntOrString, roundUp float64) int32 {
		percent, isPercent := strings.CutSuffix(bound.StrVal, "%")
		if !isPercent {
			return bound.IntVal
		}
		n := stored(strconv.Atoi(percent))
		return int32((float64(n)*float64(wanted) + roundUp) / 100)
	}
	surge := of(d.Spec.Strategy.RollingUpdate.MaxSurge, 99)
	unavailable := of(d.Spec.Strategy.RollingUpdate.MaxUnavailable, 0)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return max(0, wanted-unavailable), wanted + surge
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
			if rapid.Bool().Draw(t, "restart") {
				m.start(t)
				m.note("another process leads: the loop starts anew")
			} else {
				m.replicaSetCache.Relist()
				m.note("the watch breaks, ReplicaSets are listed anew")
			}
		},
	}
}

// showDeployment shows the loop the deployment. A new spec comes after all that
// the loop has written under the former one. Nothing makes it so: a loop that
// is shown a second template before it is shown the ReplicaSet that it has
// created for the first does not count that one's pods. The bounds hold for
// users who are slower than the cache. Within one spec it may be as late as it
// likes: the new ReplicaSet only grows and the others only shrink, so a sum of
// old sizes is too large rather than too small.
func (m *model) showDeployment() {
	if m.deploymentCache.Cached()[0].Generation != m.deployment().Generation {
		m.replicaSetCache.CatchUp()
	}
	m.deploymentCache.CatchUp()
	m.note("the deployment reaches the cache")
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
func TestARollingUpdateStaysWithinItsBoundsAndEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, drawRolling(t))
		m.settle(t)
		actions := anything(m)
		actions["the user rolls out"] = func(t *rapid.T) {
			m.report()
			m.rollOut(rapid.SampledFrom([]string{"v1", "v2", "v3", broken}).Draw(t, "version"))
			m.showDeployment()
		}
		actions[""] = m.checkAvailable
		t.Repeat(actions)
		m.rollOut("v9")
		m.settle(t)
	})
}

// The same without the promise about available pods, which scaling does not
// keep, for users who scale, pause, resume and roll out at any moment, and for
// others who resize ReplicaSets behind their back.
func TestADeploymentArrivesWhateverIsDoneToIt(t *testing.T) {
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
		m.settle(t)
	})
}

// Recreate keeps its promise as well when it is paused, scaled or given another
// template in the middle.
func TestRecreateNeverHasPodsOfTwoVersionsAndEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, recreating(rapid.Int32Range(1, 4).Draw(t, "replicas")))
		for _, version := range []string{"v1", "v2"} {
			m.rollOut(version)
			m.settle(t)
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
		m.settle(t)
	})
}
