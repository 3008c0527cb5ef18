package deployment

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
)

// collide lets the name of the new ReplicaSet of d be taken, and tells what
// comes of it. What it is taken by has gone again if it is nil. The cache still
// shows a ReplicaSet that is another deployment's.
func collide(t *testing.T, d *appsv1.Deployment, by *appsv1.ReplicaSet) string {
	t.Helper()
	cached := with(newReplicaSet(see(d)), func(rs *appsv1.ReplicaSet) { rs.OwnerReferences[0].UID = "former" })
	c, client := fixture(t, d, cached)
	replicaSets := appsv1.SchemeGroupVersion.WithResource("replicasets")
	if by != nil {
		require.NoError(t, client.Tracker().Update(replicaSets, by, by.Namespace))
	} else {
		require.NoError(t, client.Tracker().Delete(replicaSets, cached.Namespace, cached.Name))
	}
	err := c.settleCollision(t.Context(), d, newReplicaSet(see(d)).Name)
	text := "no collision is counted"
	for _, action := range client.Actions() {
		if update, ok := action.(clienttesting.UpdateAction); ok {
			text = "a status without collisions is written"
			if count := update.GetObject().(*appsv1.Deployment).Status.CollisionCount; count != nil {
				text = fmt.Sprintf("collision %d is counted", *count)
			}
		}
	}
	if err != nil {
		text += ", and it is tried again later"
	}
	return text
}

func TestCollision(t *testing.T) {
	t.Parallel()
	d := func() *appsv1.Deployment { return rolling(3, "1", "0") }
	taken := func(change func(rs *appsv1.ReplicaSet)) *appsv1.ReplicaSet {
		return with(newReplicaSet(see(d())), change)
	}
	for _, tt := range []struct {
		behaviour, situation string
		by                   *appsv1.ReplicaSet
		want                 string
	}{
		{"what the loop has made a moment ago is no collision", "the ReplicaSet is this deployment's and has its template",
			taken(func(*appsv1.ReplicaSet) {}), "no collision is counted"},
		{"one that was resized since is no collision either", "the ReplicaSet is this deployment's, has its template and another size",
			taken(func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = new(int32(7)) }), "no collision is counted"},
		{"what a former deployment of that name has left is a collision", "the ReplicaSet has the template; its owner has the same name and another UID",
			taken(func(rs *appsv1.ReplicaSet) { rs.OwnerReferences[0].UID = "former" }), "collision 1 is counted"},
		{"one that will be adopted is no collision", "the ReplicaSet has the template, labels that are selected, and no owner any more; the cache shows a former one",
			taken(func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }), "no collision is counted"},
		{"one that nobody selects is a collision", "the ReplicaSet has the template, no owner, and labels that are not selected",
			taken(func(rs *appsv1.ReplicaSet) { rs.OwnerReferences, rs.Labels = nil, nil }), "collision 1 is counted"},
		{"one that nobody owns and that goes is a collision", "the ReplicaSet has the template, no owner, and is being deleted",
			taken(func(rs *appsv1.ReplicaSet) { rs.OwnerReferences, rs.DeletionTimestamp = nil, new(metav1.Now()) }), "collision 1 is counted"},
		{"another template with the same hash is a collision", "the ReplicaSet is this deployment's and has the template of v1",
			taken(func(rs *appsv1.ReplicaSet) { rs.Spec.Template = template("v1") }), "collision 1 is counted"},
		{"what has gone again is tried again", "the ReplicaSet is in the cache alone",
			nil, "no collision is counted, and it is tried again later"},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, collide(t, d(), tt.by), tt.situation)
		})
	}
	t.Run("collisions add up", func(t *testing.T) {
		t.Parallel()
		second := d()
		second.Status.CollisionCount = new(int32(1))
		stranger := with(newReplicaSet(see(second)), func(rs *appsv1.ReplicaSet) { rs.OwnerReferences[0].UID = "former" })
		assert.Equal(t, "collision 2 is counted", collide(t, second, stranger), "one collision is counted before")
	})
	t.Run("after a collision the next try has another name", func(t *testing.T) {
		t.Parallel()
		assert.NotEqual(t, newReplicaSet(see(d())).Name, newReplicaSet(see(afterCollision(d()))).Name)
	})
	t.Run("the rest of the status stays and so does what the cache holds", func(t *testing.T) {
		t.Parallel()
		before := d()
		after := afterCollision(before)
		assert.Nil(t, before.Status.CollisionCount, "a collision is counted in the cache's own object")
		after.Status.CollisionCount = nil
		assert.Equal(t, before.Status, after.Status, "the status but for the count")
		after.Status = before.Status
		assert.True(t, reflect.DeepEqual(before, after), "something besides the status has changed")
		twice := afterCollision(afterCollision(before))
		assert.EqualValues(t, 2, *twice.Status.CollisionCount)
	})
}
