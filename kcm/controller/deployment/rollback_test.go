package deployment

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestARollbackIsTriedOnceAndSaysHowItWent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, to     string
		revisions    []int // of versions 1, 2 (the new one), 3
		wantTemplate string
		want         event
	}{
		{"to a revision", "1", []int{1, 3, 2}, "v1",
			event{"Normal", "DeploymentRollback", `Rolled back deployment "web" to revision 1`}},
		{"to the last one", "0", []int{1, 3, 2}, "v3",
			event{"Normal", "DeploymentRollback", `Rolled back deployment "web" to revision 2`}},
		{"to the present one", "3", []int{1, 3, 2}, "v2",
			event{"Warning", "DeploymentRollbackTemplateUnchanged", `The rollback revision contains the same template as current deployment "web"`}},
		{"to one that is not there", "7", []int{1, 3, 2}, "v2",
			event{"Warning", "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to."}},
		{"to the last one when there is none", "0", []int{0, 1, 0}, "v2",
			event{"Warning", "DeploymentRollbackRevisionNotFound", "Unable to find last revision."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := rolling(2, "1", "0")
			var replicaSets []*appsv1.ReplicaSet
			for i, revision := range tt.revisions {
				if revision > 0 {
					rs := replicaSet(d, i+1, 1)
					rs.Annotations[revisionAnnotation] = string(rune('0' + revision))
					rs.Annotations["kubernetes.io/change-cause"] = versionOf(rs)
					replicaSets = append(replicaSets, rs)
				}
			}
			d.Annotations = map[string]string{"kubernetes.io/change-cause": "v2"}
			seen := see(d, replicaSets...)
			d.Annotations[appsv1.DeprecatedRollbackTo] = tt.to

			p := decide(seen)
			assert.Equal(t, &tt.want, p.event)
			require.NotNil(t, p.spec)
			assert.Equal(t, template(tt.wantTemplate), p.spec.Spec.Template, "without the hash label")
			assert.Equal(t, tt.wantTemplate, p.spec.Annotations["kubernetes.io/change-cause"])
			assert.Equal(t, d.Annotations[revisionAnnotation], p.spec.Annotations[revisionAnnotation])
			assert.NotContains(t, p.spec.Annotations, appsv1.DeprecatedRollbackTo)
			assert.NotContains(t, p.spec.Annotations, desiredReplicasAnnotation)
			assert.Contains(t, d.Annotations, appsv1.DeprecatedRollbackTo, "the deployment is the cache's")
			assert.Empty(t, p.change)
		})
	}
}

func TestARollbackWaitsForTheNewReplicaSet(t *testing.T) {
	t.Parallel()
	d := rolling(2, "1", "0")
	d.Annotations = map[string]string{appsv1.DeprecatedRollbackTo: "1"}
	p := decide(see(d, replicaSet(d, 1, 2)))
	assert.Equal(t, "create v2 with size 0", p.tells(), "a version that is left at once needs no pods")
}

func TestARollbackThatIsNoNumberIsIgnored(t *testing.T) {
	t.Parallel()
	d := rolling(2, "1", "0")
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, appsv1.DeprecatedRollbackTo, "first")
	assert.Nil(t, decide(see(d, replicaSet(d, 1, 0), replicaSet(d, 2, 2))).spec)
}
