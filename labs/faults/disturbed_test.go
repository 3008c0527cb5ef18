package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// three adds a ReplicaSet with its three pods, all known to its loop.
func (p *past) three() (*appsv1.ReplicaSet, []*corev1.Pod) {
	rs := p.set(nil, "1", 3)
	pods := []*corev1.Pod{p.pod(rs, "one"), p.pod(rs, "two"), p.pod(rs, "three")}
	rs.Status.Replicas = 3
	p.change(watch.Modified, "replicasets", rs)
	return rs, pods
}

// violations returns the invariants that are broken though some pods were deleted by users.
func (p *past) violations(byUsers ...types.UID) (names []string) {
	p.t.Helper()
	j := NewJudge()
	for _, pod := range byUsers {
		j.Deletes(pod)
	}
	violations, err := j.Look(p.changes...)
	require.NoError(p.t, err)
	for _, v := range violations {
		names = append(names, v.Invariant)
	}
	return names
}

func TestAPodThatAUserDeletesIsNotTheLoopsDeedNorIsWhatItDidNotKnowOf(t *testing.T) {
	t.Parallel()
	p := &past{t: t}
	_, pods := p.three()
	p.deletePod(pods[0])
	require.Contains(t, p.violations(), "too-few", "the loop may not")
	require.Empty(t, p.violations("one"))
	p.deletePod(pods[1])
	require.Empty(t, p.violations("one"), "a loop may have been about to delete another one")
}

func TestWhatWasDisturbedCountsAgainWhenItHasBeenWholeForATime(t *testing.T) {
	t.Parallel()
	p := &past{t: t}
	rs, pods := p.three()
	p.deletePod(pods[0])
	fourth := p.pod(rs, "four")
	p.change(watch.Modified, "replicasets", rs)
	p.changes[len(p.changes)-1].Seen = time.Time{}.Add(aftermath + 1)
	p.deletePod(fourth)
	p.changes[len(p.changes)-1].Seen = time.Time{}.Add(aftermath + 2)
	require.Equal(t, []string{"too-few"}, p.violations("one"))
}

func TestADeploymentThatIsChangedBeforeItIsRolledOutHasNoLowerBoundUntilItIs(t *testing.T) {
	t.Parallel()
	history := func(rolledOut bool) *past {
		p := &past{t: t}
		d := p.web(3)
		rs := p.set(d, "1", 3)
		one := p.pod(rs, "one")
		p.pod(rs, "two")
		p.pod(rs, "three")
		rs.Status.Replicas = 3
		p.change(watch.Modified, "replicasets", rs)
		if rolledOut {
			d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas = 3, 3, 3
			p.change(watch.Modified, "deployments", d)
		}
		d.Generation++
		p.change(watch.Modified, "deployments", d)
		p.resize(rs, 2)
		p.deletePod(one)
		return p
	}
	require.Contains(t, history(true).violations(), "available")
	require.NotContains(t, history(false).violations(), "available")
}

func TestAReplicaSetThatAUserReturnsMayBeATwin(t *testing.T) {
	t.Parallel()
	p := &past{t: t}
	d := p.web(3)
	taken := p.set(d, "1", 1)
	taken.Labels = map[string]string{appLabel: app + "-out"}
	p.change(watch.Modified, "replicasets", taken)
	twin := p.set(d, "2", 1)
	twin.Spec.Template = podTemplate("1")
	p.change(watch.Modified, "replicasets", twin)
	require.NotContains(t, p.violations(), "twins")
}

func TestAReplicationControllerIsHeldToTheSameRules(t *testing.T) {
	t.Parallel()
	p := &past{t: t}
	rc := &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "rc", UID: "rc"},
		Spec: corev1.ReplicationControllerSpec{Replicas: new(int32), Selector: map[string]string{appLabel: app},
			Template: new(podTemplate("web:1"))},
	}
	p.change(watch.Added, "replicationcontrollers", rc)
	p.pod(&appsv1.ReplicaSet{ObjectMeta: rc.ObjectMeta}, "one")
	require.Equal(t, []string{"too-many"}, p.violations())
}
