package deployment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func TestARoundOfARollingUpdate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		behaviour string
		seen      observed
		want      string
	}{
		{"the new ReplicaSet is created with the surge", rollout(10, "3", "2", set{1, 10, 10}), "create v2 with size 3"},
		{"the new one grows before the old one shrinks", rollout(10, "3", "2", set{1, 10, 10}, set{2, 0, 0}), "v2 from 0 to 3"},
		{"the old one shrinks when there is no room", rollout(10, "3", "2", set{1, 10, 10}, set{2, 3, 0}), "v1 from 10 to 8"},
		{"nothing moves while new pods are not available", rollout(10, "3", "2", set{1, 8, 8}, set{2, 5, 0}), "no change"},
		{"a new one that is too large shrinks", rollout(10, "3", "2", set{1, 1, 1}, set{2, 12, 12}), "v2 from 12 to 10"},
		{"at the end nothing is left to do", rollout(10, "3", "2", set{1, 0, 0}, set{2, 10, 10}), "no change"},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, decide(tt.seen).tells(), situation(tt.seen))
		})
	}
}

func rss(replicaSets ...*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	// v2 is the new version in these tests, whatever its age, so it gets the
	// highest revision.
	for _, rs := range replicaSets {
		if versionOf(rs) == "v2" {
			rs.Annotations[revisionAnnotation] = "9"
		}
	}
	return replicaSets
}

func TestTheNewReplicaSetIsCreatedComplete(t *testing.T) {
	t.Parallel()
	d := rolling(10, "3", "2")
	d.Annotations = map[string]string{
		"team":                             "blue",
		corev1.LastAppliedConfigAnnotation: "{}",
		revisionAnnotation:                 "1",
		appsv1.DeprecatedRollbackTo:        "x",
	}
	d.Spec.MinReadySeconds = 7
	d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}
	seen := see(d, replicaSet(d, 1, 10), replicaSet(d, 4, 0))

	rs := decide(seen).create
	require.NotNil(t, rs)
	hash := controller.PodTemplateHash(d.Spec.Template, nil)
	assert.Equal(t, "web-"+hash, rs.Name)
	assert.Equal(t, "ns", rs.Namespace)
	assert.Equal(t, map[string]string{"app": "web", hashLabel: hash}, rs.Labels)
	assert.Equal(t, rs.Labels, rs.Spec.Template.Labels)
	assert.Equal(t, rs.Labels, rs.Spec.Selector.MatchLabels)
	assert.Equal(t, d.Spec.Selector.MatchExpressions, rs.Spec.Selector.MatchExpressions)
	assert.Equal(t, d.Spec.Template.Spec, rs.Spec.Template.Spec)
	assert.EqualValues(t, 7, rs.Spec.MinReadySeconds)
	assert.EqualValues(t, 3, *rs.Spec.Replicas, "no more than the surge")
	assert.Equal(t, map[string]string{
		"team":                    "blue",
		revisionAnnotation:        "5",
		desiredReplicasAnnotation: "10",
		maxReplicasAnnotation:     "13",
	}, rs.Annotations)
	assert.True(t, metav1.IsControlledBy(rs, d))
	assert.True(t, *rs.OwnerReferences[0].BlockOwnerDeletion)
	assert.Equal(t, template("v2"), d.Spec.Template, "the deployment is the cache's")
}

func TestANameThatWouldBeTooLongIsCut(t *testing.T) {
	t.Parallel()
	long := make([]byte, 253)
	for i := range long {
		long[i] = 'x'
	}
	assert.Len(t, replicaSetName(string(long), "12345678"), 253)
	assert.Equal(t, "web-12345678", replicaSetName("web", "12345678"))
}

func TestTheOldestReplicaSetWithTheTemplateIsTheNewOne(t *testing.T) {
	t.Parallel()
	d := rolling(1, "1", "0")
	twin := with(replicaSet(d, 2, 1), func(rs *appsv1.ReplicaSet) {
		rs.Name, rs.UID = "web-twin", "twin"
		rs.CreationTimestamp = metav1.NewTime(noon)
	})
	newRS, oldRSs := tellApart(d, []*appsv1.ReplicaSet{twin, replicaSet(d, 3, 0), replicaSet(d, 2, 1)})
	assert.Equal(t, "web-v2", newRS.Name)
	require.Len(t, oldRSs, 2)
	assert.Equal(t, "web-v3", oldRSs[0].Name)
	assert.Equal(t, "web-twin", oldRSs[1].Name)
}

func TestTheNewReplicaSetIsKeptUpToDate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(d *appsv1.Deployment, rs *appsv1.ReplicaSet)
		check  func(t *testing.T, rs *appsv1.ReplicaSet)
	}{
		"annotations": {
			func(d *appsv1.Deployment, _ *appsv1.ReplicaSet) { d.Annotations["team"] = "red" },
			func(t *testing.T, rs *appsv1.ReplicaSet) { assert.Equal(t, "red", rs.Annotations["team"]) },
		},
		"minReadySeconds": {
			func(d *appsv1.Deployment, _ *appsv1.ReplicaSet) { d.Spec.MinReadySeconds = 5 },
			func(t *testing.T, rs *appsv1.ReplicaSet) { assert.EqualValues(t, 5, rs.Spec.MinReadySeconds) },
		},
		"revision, with its history": {
			func(_ *appsv1.Deployment, rs *appsv1.ReplicaSet) { rs.Annotations[revisionAnnotation] = "3" },
			func(t *testing.T, rs *appsv1.ReplicaSet) {
				assert.Equal(t, "8", rs.Annotations[revisionAnnotation])
				assert.Equal(t, "3", rs.Annotations[revisionHistoryAnnotation])
			},
		},
	} {
		for _, paused := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := rolling(4, "1", "0")
				d.Spec.Paused = paused
				d.Spec.ProgressDeadlineSeconds = nil
				newRS := with(replicaSet(d, 2, 1), func(rs *appsv1.ReplicaSet) { rs.Annotations[revisionAnnotation] = "8" })
				seen := see(d, replicaSet(d, 7, 3), newRS)
				before := newRS.DeepCopy()
				tt.change(d, newRS)
				updated := updateNew(seen)
				require.NotNil(t, updated)
				assert.Equal(t, newRS.UID, updated.UID)
				assert.Equal(t, *before.Spec.Replicas, *updated.Spec.Replicas)
				tt.check(t, updated)
				seen.newRS = updated
				assert.Nil(t, updateNew(seen))
			})
		}
	}
}

func TestTheDeploymentTakesTheRevisionOfItsNewReplicaSet(t *testing.T) {
	t.Parallel()
	d := rolling(2, "1", "0")
	seen := see(d, replicaSet(d, 2, 2))
	d.Annotations = map[string]string{"team": "blue"}
	seen.newRS.Annotations["team"] = "blue"

	noted := noteRevision(seen)
	require.NotNil(t, noted)
	assert.Equal(t, map[string]string{"team": "blue", revisionAnnotation: "2"}, noted.Annotations)
	assert.Equal(t, d.Status, noted.Status)
	assert.Equal(t, map[string]string{"team": "blue"}, d.Annotations, "the deployment is the cache's")
}

func TestAReplicaSetThatWasFoundStartsTheClock(t *testing.T) {
	t.Parallel()
	d := rolling(2, "1", "0")
	d.Status.Conditions = nil
	noted := noteRevision(see(d, replicaSet(d, 2, 2)))
	require.NotNil(t, noted)
	assert.Equal(t, []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue,
		Reason: "FoundNewReplicaSet", Message: `Found new replica set "web-v2"`,
		LastUpdateTime: metav1.NewTime(noon), LastTransitionTime: metav1.NewTime(noon),
	}}, noted.Status.Conditions)
}

func TestADeploymentThatIsBeingDeletedGetsOnlyItsStatus(t *testing.T) {
	t.Parallel()
	d := rolling(4, "1", "0")
	d.DeletionTimestamp = &metav1.Time{Time: noon}
	d.Spec.Paused = true
	seen := see(d, replicaSet(d, 1, 4))
	assert.Nil(t, notePause(seen))
	p := decide(seen)
	require.NotNil(t, p.status)
	assert.EqualValues(t, 4, p.status.Status.Replicas)
	p.status = nil
	assert.Equal(t, plan{}, p)
}

func TestASelectorThatSelectsEverythingIsRefused(t *testing.T) {
	t.Parallel()
	d := rolling(4, "1", "0")
	d.Spec.Selector = &metav1.LabelSelector{}
	p := decide(observed{deployment: d, now: noon})
	assert.Equal(t, &event{"Warning", "SelectingAll", "This deployment is selecting all pods. A non-empty selector is required."}, p.event)
	assert.EqualValues(t, 1, p.status.Status.ObservedGeneration)
	assert.Nil(t, p.create)
}

func TestAPauseAndItsEndAreNoted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		paused   bool
		has      string
		deadline int32
		want     string
	}{
		{"paused", true, reasonReplicaSetUpdated, 600, "DeploymentPaused"},
		{"paused already", true, reasonPaused, 600, ""},
		{"resumed", false, reasonPaused, 600, "DeploymentResumed"},
		{"running", false, reasonReplicaSetUpdated, 600, ""},
		{"out of time before", true, reasonDeadlineExceeded, 600, ""},
		{"no deadline", true, reasonReplicaSetUpdated, 1<<31 - 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := rolling(4, "1", "0")
			d.Spec.Paused = tt.paused
			d.Spec.ProgressDeadlineSeconds = &tt.deadline
			d.Status.Conditions = []appsv1.DeploymentCondition{newCondition(noon.Add(-time.Hour), appsv1.DeploymentProgressing, corev1.ConditionTrue, tt.has, "")}
			noted := notePause(see(d, replicaSet(d, 1, 4)))
			if tt.want == "" {
				assert.Nil(t, noted)
				return
			}
			require.NotNil(t, noted)
			condition := findCondition(noted.Status, appsv1.DeploymentProgressing)
			assert.Equal(t, tt.want, condition.Reason)
			assert.Equal(t, corev1.ConditionUnknown, condition.Status)
			assert.True(t, condition.LastUpdateTime.Equal(&metav1.Time{Time: noon}), "the clock starts anew")
		})
	}
}

func TestAPausedDeploymentScalesAndTidiesButDoesNotRollOut(t *testing.T) {
	t.Parallel()
	d := rolling(4, "1", "0")
	d.Spec.Paused = true
	d.Spec.RevisionHistoryLimit = new(int32(1))
	d.Status.Conditions[0].Reason = reasonPaused

	p := decide(see(d, replicaSet(d, 0, 0), replicaSet(d, 1, 3)))
	assert.Equal(t, "v1 from 3 to 4; delete v0", p.tells())

	d.Annotations = map[string]string{appsv1.DeprecatedRollbackTo: "0"}
	assert.Empty(t, decide(see(d, replicaSet(d, 0, 0), replicaSet(d, 1, 3))).remove, "a rollback may need it")
}

func TestAPausedDeploymentDoesNotDeleteTheReplicaSetThatItGivesPods(t *testing.T) {
	t.Parallel()
	d := rolling(4, "1", "0")
	d.Spec.Paused = true
	d.Spec.RevisionHistoryLimit = new(int32(0))

	p := decide(see(d, replicaSet(d, 0, 0), replicaSet(d, 1, 0)))
	assert.Equal(t, "v1 from 0 to 4; delete v0", p.tells())
}

func names(replicaSets []*appsv1.ReplicaSet) []string {
	var result []string
	for _, rs := range replicaSets {
		result = append(result, rs.Name)
	}
	return result
}

func TestOnlyFinishedReplicaSetsAboveTheLimitExpire(t *testing.T) {
	t.Parallel()
	d := rolling(1, "1", "0")
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
	old := func() []*appsv1.ReplicaSet {
		return []*appsv1.ReplicaSet{
			with(replicaSet(d, 3, 0), func(rs *appsv1.ReplicaSet) { rs.Annotations[revisionAnnotation] = "1" }),
			with(replicaSet(d, 4, 0), func(rs *appsv1.ReplicaSet) { rs.Generation = 2 }),
			with(replicaSet(d, 5, 0), func(rs *appsv1.ReplicaSet) { rs.Status.Replicas = 1 }),
			with(replicaSet(d, 6, 0), func(rs *appsv1.ReplicaSet) { rs.DeletionTimestamp = &metav1.Time{Time: noon} }),
			replicaSet(d, 7, 0),
			replicaSet(d, 8, 0),
		}
	}
	for _, tt := range []struct {
		limit *int32
		want  []string
	}{
		{nil, nil},
		{new(int32(1<<31 - 1)), nil},
		{new(int32(10)), nil},
		{new(int32(5)), nil},
		{new(int32(4)), []string{"web-v3"}},
		{new(int32(1)), []string{"web-v3", "web-v7"}},
		{new(int32(0)), []string{"web-v3", "web-v7", "web-v8"}},
	} {
		d := d.DeepCopy()
		d.Spec.RevisionHistoryLimit = tt.limit
		newRS := with(replicaSet(d, 2, 1), func(rs *appsv1.ReplicaSet) { rs.Annotations[revisionAnnotation] = "9" })
		seen := see(d, append(old(), newRS)...)
		setCondition(&d.Status, newCondition(noon, appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonRolledOut, ""))
		assert.Equal(t, tt.want, names(decide(seen).remove), "limit %v", tt.limit)

		d.Status.UpdatedReplicas = 0
		assert.Empty(t, decide(seen).remove, "the rollout is not finished")
	}
}
