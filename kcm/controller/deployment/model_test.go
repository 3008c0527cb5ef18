package deployment

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// model is a cluster that holds one deployment: what the API server stores,
// and the pods behind it. The loop for ReplicaSets and the pods move on when
// they are told to, so a test can let everything be as late as it likes.
type model struct {
	deployment  *appsv1.Deployment
	replicaSets []*appsv1.ReplicaSet
	pods        map[types.UID]*podCounts
	broken      map[string]bool // images whose pods never become available
	now         time.Time
	rounds      int
}

type podCounts struct{ pending, available, terminating int32 }

func newModel(d *appsv1.Deployment) *model {
	d.Status.Conditions = nil
	return &model{deployment: d, pods: map[types.UID]*podCounts{}, broken: map[string]bool{}, now: noon}
}

func (m *model) observe() observed {
	seen := observed{deployment: m.deployment, now: m.now, countsTerminating: true}
	seen.newRS, seen.oldRSs = tellApart(m.deployment, m.replicaSets)
	for _, rs := range seen.oldRSs {
		pods := m.pods[rs.UID]
		for range pods.pending + pods.available + pods.terminating {
			seen.oldPods = append(seen.oldPods, &corev1.Pod{})
		}
	}
	return seen
}

// round is one sync of the deployment. It tells whether anything was written.
func (m *model) round() bool {
	m.rounds++
	m.now = m.now.Add(time.Second)
	seen := m.observe()
	p := decide(seen)
	if rs := p.create; rs != nil {
		rs.UID = types.UID(fmt.Sprint("uid-", len(m.replicaSets)))
		rs.CreationTimestamp = metav1.NewTime(m.now)
		rs.Generation = 1
		m.replicaSets = append(m.replicaSets, rs)
		m.pods[rs.UID] = &podCounts{}
		if after := afterCreation(seen.deployment, rs, m.now); after != nil {
			m.deployment = after
		}
		return true
	}
	if p.update != nil {
		p.change = []change{{to: p.update}}
	}
	for _, change := range p.change {
		for i, rs := range m.replicaSets {
			if rs.UID == change.to.UID {
				m.replicaSets[i] = change.to
				m.replicaSets[i].Generation++
			}
		}
	}
	for _, removed := range p.remove {
		for i, rs := range m.replicaSets {
			if rs.UID == removed.UID {
				m.replicaSets = append(m.replicaSets[:i:i], m.replicaSets[i+1:]...)
				break
			}
		}
	}
	if p.status != nil {
		m.deployment = p.status
	}
	return len(p.change)+len(p.remove) > 0 || p.status != nil
}

// reconcilePods is what the loop for ReplicaSets does about pods: it deletes
// those that are not available first.
func (m *model) reconcilePods(rs *appsv1.ReplicaSet) bool {
	pods := m.pods[rs.UID]
	difference := size(rs) - pods.pending - pods.available
	if difference >= 0 {
		pods.pending += difference
		return difference > 0
	}
	fromPending := min(pods.pending, -difference)
	pods.pending -= fromPending
	pods.available -= -difference - fromPending
	pods.terminating += -difference
	return true
}

// reportStatus is what the loop for ReplicaSets does about the status.
func (m *model) reportStatus(i int) bool {
	rs := m.replicaSets[i].DeepCopy()
	pods := m.pods[rs.UID]
	before := rs.Status
	rs.Status = appsv1.ReplicaSetStatus{
		ObservedGeneration: rs.Generation, Replicas: pods.pending + pods.available,
		ReadyReplicas: pods.available, AvailableReplicas: pods.available, TerminatingReplicas: &pods.terminating,
	}
	m.replicaSets[i] = rs
	return before.Replicas != rs.Status.Replicas || before.AvailableReplicas != rs.Status.AvailableReplicas || before.ObservedGeneration != rs.Generation
}

// startOne lets one pod become available.
func (m *model) startOne(rs *appsv1.ReplicaSet) bool {
	pods := m.pods[rs.UID]
	if pods.pending == 0 || m.broken[versionOf(rs)] {
		return false
	}
	pods.pending--
	pods.available++
	return true
}

func (m *model) endTerminating(rs *appsv1.ReplicaSet) bool {
	ended := m.pods[rs.UID].terminating > 0
	m.pods[rs.UID].terminating = 0
	return ended
}

// settle lets everything happen until nothing does any more.
func (m *model) settle(t *rapid.T) {
	start := m.rounds
	limit := 40 + 6*int(*m.deployment.Spec.Replicas)*max(1, len(m.replicaSets))
	for moved := true; moved; {
		moved = m.round()
		for i, rs := range m.replicaSets {
			moved = m.reconcilePods(rs) || moved
			moved = m.startOne(rs) || moved
			moved = m.endTerminating(rs) || moved
			moved = m.reportStatus(i) || moved
		}
		if m.rounds-start > limit {
			t.Fatalf("not settled after %d rounds: %s", limit, m)
		}
	}
}

// anyStep lets one thing happen that may happen.
func (m *model) anyStep(t *rapid.T) {
	what := rapid.SampledFrom([]string{"round", "round", "pods", "status", "start", "end"}).Draw(t, "step")
	if what == "round" || len(m.replicaSets) == 0 {
		m.round()
		return
	}
	i := rapid.IntRange(0, len(m.replicaSets)-1).Draw(t, "of")
	switch rs := m.replicaSets[i]; what {
	case "pods":
		m.reconcilePods(rs)
	case "status":
		m.reportStatus(i)
	case "start":
		m.startOne(rs)
	case "end":
		m.endTerminating(rs)
	}
}

func (m *model) rollOut(version string) {
	m.deployment = m.deployment.DeepCopy()
	m.deployment.Spec.Template = template(version)
	m.deployment.Generation++
}

// catchUp lets the loop for ReplicaSets see all sizes. Only a change of the
// template makes a ReplicaSet that shrank grow again. One that does so before
// its loop has seen it small still tells of pods that are gone, and nothing in
// the API shows that; the bounds hold for users who are not quicker than that.
func (m *model) catchUp() {
	for i, rs := range m.replicaSets {
		m.reconcilePods(rs)
		m.reportStatus(i)
	}
}

func (m *model) scaleTo(replicas int32) {
	m.deployment = m.deployment.DeepCopy()
	m.deployment.Spec.Replicas = &replicas
	m.deployment.Generation++
}

// total and available count pods, without those that are being deleted.
func (m *model) total() (total, available int32) {
	for _, pods := range m.pods {
		total += pods.pending + pods.available
		available += pods.available
	}
	return total, available
}

func (m *model) String() string {
	text := fmt.Sprintf("%d wanted of %s;", *m.deployment.Spec.Replicas, m.deployment.Spec.Template.Spec.Containers[0].Image)
	for _, rs := range m.replicaSets {
		text += fmt.Sprintf(" %s: size %d, pods %+v, said to have %d available;", versionOf(rs), size(rs), *m.pods[rs.UID], rs.Status.AvailableReplicas)
	}
	return text
}

// checkDone wants exactly the pods that are asked for and a status that says so.
func (m *model) checkDone(t *rapid.T) {
	seen := m.observe()
	if seen.newRS == nil || size(seen.newRS) != *m.deployment.Spec.Replicas || sum(seen.oldRSs, size) != 0 {
		t.Fatalf("settled too early: %s", m)
	}
	if total, available := m.total(); total != *m.deployment.Spec.Replicas || available != total {
		t.Fatalf("%d pods, %d available: %s", total, available, m)
	}
	condition := findCondition(m.deployment.Status, appsv1.DeploymentProgressing)
	if !complete(m.deployment, m.deployment.Status) || condition == nil || condition.Reason != reasonRolledOut {
		t.Fatalf("status %+v", m.deployment.Status)
	}
	if m.deployment.Annotations[revisionAnnotation] != seen.newRS.Annotations[revisionAnnotation] {
		t.Fatalf("revision %s, new ReplicaSet %s", m.deployment.Annotations[revisionAnnotation], seen.newRS.Annotations[revisionAnnotation])
	}
}

func drawRolling(t *rapid.T) *appsv1.Deployment {
	bound := rapid.SampledFrom([]string{"0", "1", "2", "5", "10%", "25%", "60%", "100%"})
	return rolling(rapid.Int32Range(1, 12).Draw(t, "replicas"), bound.Draw(t, "maxSurge"), bound.Draw(t, "maxUnavailable"))
}

func TestARollingUpdateStaysWithinItsBoundsAndEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(drawRolling(t))
		m.settle(t)
		m.checkDone(t)
		versions := rapid.SliceOfN(rapid.SampledFrom([]string{"v1", "v2", "v3", "broken"}), 1, 4).Draw(t, "versions")
		m.broken["broken"] = true
		for _, version := range versions {
			m.catchUp()
			m.rollOut(version)
			for range rapid.IntRange(0, 60).Draw(t, "steps") {
				m.anyStep(t)
				// The bound is on what is asked for: pods that are to go may
				// be there for a moment longer.
				if wanted, most := sum(m.replicaSets, size), maxTotal(m.deployment); wanted > most {
					t.Fatalf("%d pods asked for, at most %d allowed: %s", wanted, most, m)
				}
				_, available := m.total()
				if least := minAvailable(m.deployment); available < least {
					t.Fatalf("%d pods available, at least %d promised: %s", available, least, m)
				}
			}
		}
		m.rollOut("v9")
		m.settle(t)
		m.checkDone(t)
	})
}

func TestADeploymentThatIsScaledWhileItRollsOutArrives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(drawRolling(t))
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			if rapid.Bool().Draw(t, "scale") {
				m.scaleTo(rapid.Int32Range(0, 20).Draw(t, "to"))
			} else {
				m.rollOut(rapid.SampledFrom([]string{"v1", "v2", "v3"}).Draw(t, "version"))
			}
			for range rapid.IntRange(0, 30).Draw(t, "steps") {
				m.anyStep(t)
			}
		}
		m.settle(t)
		m.checkDone(t)
	})
}

func TestRecreateNeverHasPodsOfTwoVersionsAndEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(recreating(rapid.Int32Range(1, 6).Draw(t, "replicas")))
		m.settle(t)
		m.checkDone(t)
		for _, version := range rapid.SliceOfN(rapid.SampledFrom([]string{"v1", "v2", "v3"}), 1, 4).Draw(t, "versions") {
			m.rollOut(version)
			for range rapid.IntRange(0, 40).Draw(t, "steps") {
				m.anyStep(t)
				versions := 0
				for _, rs := range m.replicaSets {
					if *m.pods[rs.UID] != (podCounts{}) {
						versions++
					}
				}
				if versions > 1 {
					t.Fatalf("pods of %d versions: %s", versions, m)
				}
			}
		}
		m.settle(t)
		m.checkDone(t)
	})
}
