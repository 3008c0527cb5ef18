package deployment

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// drawSeen returns a deployment of version v2 and ReplicaSets in any state,
// also in one that no rollout leads to: sized by somebody else, sized when the
// deployment had another size, with a status that is behind, with pods that are
// not available.
func drawSeen(t *rapid.T, d *appsv1.Deployment) observed {
	var replicaSets []*appsv1.ReplicaSet
	for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 4), 0, 4, rapid.ID).Draw(t, "versions") {
		rs := replicaSet(d, n, rapid.Int32Range(0, 10).Draw(t, "size"))
		rs.Status.Replicas = rapid.Int32Range(0, 12).Draw(t, "pods")
		having(rs, rapid.Int32Range(0, rs.Status.Replicas).Draw(t, "available"))
		if rapid.Bool().Draw(t, "scaled since") {
			annotateSize(rolling(rapid.Int32Range(0, 12).Draw(t, "when it was sized"), "1", "0"), rs)
		}
		replicaSets = append(replicaSets, rs)
	}
	seen := see(d, rss(replicaSets...)...)
	if d.Spec.Paused = rapid.Bool().Draw(t, "paused"); d.Spec.Paused {
		setCondition(&d.Status, newCondition(noon, appsv1.DeploymentProgressing, corev1.ConditionUnknown, reasonPaused, ""))
	}
	return seen
}

// carriedOut returns the ReplicaSets as a plan leaves them.
func (p plan) carriedOut(seen observed) []*appsv1.ReplicaSet {
	all := apply(seen.all(), p.change)
	if p.create != nil {
		all = append(all, p.create)
	}
	return all
}

// logPlan shows what was seen and what was planned.
func logPlan(t *rapid.T, seen observed, p plan) {
	d := seen.deployment
	least, most := promised(d)
	text := fmt.Sprintf("%s, %d replicas of v2, %d to %d pods, paused %t, scaled %t\n\nversion  size  to  pods  available\n",
		d.Spec.Strategy.Type, *d.Spec.Replicas, least, most, d.Spec.Paused, wasScaled(seen))
	became := p.carriedOut(seen)
	for i, rs := range seen.all() {
		text += fmt.Sprintf("%-7s  %4d  %2d  %4d  %9d\n", versionOf(rs), size(rs), size(became[i]), rs.Status.Replicas, rs.Status.AvailableReplicas)
	}
	if p.create != nil {
		text += fmt.Sprintf("%-7s   new  %2d\n", versionOf(p.create), size(p.create))
	}
	t.Log("\n" + text)
}

// In whatever state things are: a plan lets the ReplicaSets grow together only
// up to the upper bound. One of a rollout also keeps at least the promised
// number of available pods, or as many as there are. (Scaling keeps
// proportions, and looks at nobody's availability.)
func TestAPlanOfARollingUpdate(t *testing.T) {
	t.Parallel()
	t.Run("in whatever state things are a plan stays within the bounds", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			d := rolling(rapid.Int32Range(0, 10).Draw(t, "replicas"), drawBound(t, "maxSurge"), drawBound(t, "maxUnavailable"))
			seen := drawSeen(t, d)
			p := decide(seen)
			before, after := seen.all(), p.carriedOut(seen)
			logPlan(t, seen, p)

			least, most := promised(d)
			if now := sum(after, size); now > sum(before, size) && now > most {
				t.Fatal("the plan goes above maxSurge")
			}
			rollout := !d.Spec.Paused && !wasScaled(seen)
			if now := sum(after, sure); rollout && now < sum(before, sure) && now < least {
				t.Fatal("the plan goes below maxUnavailable")
			}
			if d.Spec.Paused && p.create != nil {
				t.Fatal("the plan rolls out what is paused")
			}
			for _, rs := range after {
				if size(rs) < 0 {
					t.Fatal("a size is negative")
				}
			}
		})
	})
}

// Whatever is left of other versions, running or ending, keeps Recreate from
// starting the new one.
func TestAPlanOfRecreate(t *testing.T) {
	t.Parallel()
	t.Run("in whatever state things are no plan starts a second version", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			d := recreating(rapid.Int32Range(0, 4).Draw(t, "replicas"))
			seen := drawSeen(t, d)
			if rapid.Bool().Draw(t, "an old pod still ends") {
				seen = besides(seen, corev1.PodRunning, true)
			}
			if rapid.Bool().Draw(t, "a rollback is asked for") {
				metav1.SetMetaDataAnnotation(&d.ObjectMeta, appsv1.DeprecatedRollbackTo, "0")
			}
			p := decide(seen)
			logPlan(t, seen, p)
			oldOnes := sum(seen.oldRSs, func(rs *appsv1.ReplicaSet) int32 { return size(rs) + rs.Status.Replicas }) + int32(len(seen.oldPods))
			starts := p.create != nil && size(p.create) > 0
			for _, change := range p.change {
				starts = starts || change.from == seen.newRS && size(change.from) == 0
			}
			if starts && oldOnes > 0 {
				t.Fatal("the plan starts pods of a second version")
			}
		})
	})
}
