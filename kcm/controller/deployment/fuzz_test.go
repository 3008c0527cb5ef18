package deployment

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// survives makes up a Deployment and ReplicaSets whose annotations, labels and
// selectors somebody else has written. Whatever it says in them, a decision comes
// of it, and asks for no size below zero.
func survives(t *rapid.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "0", "-1", "3", "2147483648", "9223372036854775807", "9223372036854775808", "1e3", "1,2", "٣"}))
	key := rapid.OneOf(rapid.SampledFrom(append([]string{"app", appsv1.DefaultDeploymentUniqueLabelKey}, ownAnnotations...)), rapid.String())
	written := rapid.MapOfN(key, text, 0, 8)

	d := drawRolling(t)
	d.Annotations = written.Draw(t, "annotations of the deployment")
	d.Spec.Template.Labels = written.Draw(t, "labels of its template")
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: written.Draw(t, "selector")}
	d.Spec.Paused = rapid.Bool().Draw(t, "paused")
	if rapid.Bool().Draw(t, "collides") {
		d.Status.CollisionCount = new(rapid.Int32().Draw(t, "collisions"))
	}
	var replicaSets []*appsv1.ReplicaSet
	for n := range rapid.IntRange(0, 4).Draw(t, "ReplicaSets") {
		rs := replicaSet(d, n+1, rapid.Int32Range(0, 12).Draw(t, "size"))
		rs.Annotations = written.Draw(t, "annotations")
		rs.Labels = written.Draw(t, "labels")
		replicaSets = append(replicaSets, rs)
	}

	selectsEverything(d)
	controller.PodTemplateHash(d.Spec.Template, d.Status.CollisionCount)
	p := decide(see(d, replicaSets...))
	if p.create != nil {
		require.GreaterOrEqual(t, size(p.create), int32(0), "of the new ReplicaSet")
	}
	for _, c := range p.change {
		require.GreaterOrEqual(t, size(c.to), int32(0), "of %s", c.to.Name)
	}
}

func TestWhateverIsWrittenInAnnotationsADecisionComesOfIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, survives)
}

func FuzzWhateverIsWrittenInAnnotationsADecisionComesOfIt(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(survives))
}
