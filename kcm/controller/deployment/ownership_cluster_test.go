package deployment_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

// createReplicaSet creates a ReplicaSet by hand, with labels beside those of
// its selector.
func (s space) createReplicaSet(name, version string, labels map[string]string) *appsv1.ReplicaSet {
	s.Helper()
	template := web(0, image(version)).Spec.Template
	template.Labels["pod-template-hash"] = "by-hand"
	rs, err := s.client.AppsV1().ReplicaSets(s.namespace).Create(s.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
			Template: template,
		},
	}, metav1.CreateOptions{})
	require.NoError(s, err)
	return rs
}

func (s space) replicaSet(ctx context.Context, name string) (*appsv1.ReplicaSet, error) {
	return s.client.AppsV1().ReplicaSets(s.namespace).Get(ctx, name, metav1.GetOptions{})
}

func TestAReplicaSetWithoutAnOwnerIsAdoptedAndUsed(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	orphan := s.createReplicaSet("by-hand", "v1", map[string]string{"app": "web"})
	s.create(web(2))
	seen := s.untilDone("v1")
	adopted := seen.replicaSets["v1"]
	assert.Len(t, seen.replicaSets, 1)
	assert.Equal(t, orphan.UID, adopted.UID)
	assert.True(t, metav1.IsControlledBy(adopted, seen))
	assert.Equal(t, "1", adopted.Annotations["deployment.kubernetes.io/revision"])
}

func TestAnAdoptedReplicaSetOfAnotherVersionIsReplaced(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.create(web(2))
	s.untilDone("v1")
	s.createReplicaSet("by-hand", "v0", map[string]string{"app": "web"})
	s.until("it has an owner and no pods", func(seen state) bool {
		return seen.size("v0") == 0 && seen.replicaSets["v0"].OwnerReferences != nil
	})
}

func TestAReplicaSetThatNoLongerMatchesIsReleasedAndReplaced(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.create(web(2))
	owned := s.untilDone("v1").replicaSets["v1"]
	relabel := []byte(`{"metadata":{"labels":{"app":"other"}}}`)
	_, err := s.client.AppsV1().ReplicaSets(s.namespace).Patch(t.Context(), owned.Name, types.MergePatchType, relabel, metav1.PatchOptions{})
	require.NoError(t, err)
	clustertest.Eventually(t, "it has no owner", func(ctx context.Context) (bool, string, error) {
		rs, err := s.replicaSet(ctx, owned.Name)
		if err != nil {
			return false, "", err
		}
		return len(rs.OwnerReferences) == 0, fmt.Sprint(rs.OwnerReferences), nil
	})
	// The released one keeps its name, so the next needs another.
	clustertest.Eventually(t, "another one is there", func(ctx context.Context) (bool, string, error) {
		seen, err := s.look(ctx)
		if err != nil {
			return false, "", err
		}
		list, err := s.client.AppsV1().ReplicaSets(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return false, "", err
		}
		done := len(list.Items) == 1 && *list.Items[0].Spec.Replicas == 2 && list.Items[0].Name != owned.Name
		return done && seen.Status.CollisionCount != nil, seen.String(), nil
	})
}

func TestAHashCollisionIsCountedAndAvoided(t *testing.T) {
	t.Parallel()
	elsewhere := newSpace(t)
	elsewhere.create(web(1))
	name := elsewhere.untilDone("v1").replicaSets["v1"].Name // it will be the same in any namespace

	s := newSpace(t)
	s.createReplicaSet(name, "v0", map[string]string{"app": "other"})
	s.create(web(1))
	seen := s.untilDone("v1")
	require.NotNil(t, seen.Status.CollisionCount)
	assert.EqualValues(t, 1, *seen.Status.CollisionCount)
	assert.NotEqual(t, name, seen.replicaSets["v1"].Name)
	assert.Empty(t, seen.replicaSets["v0"].OwnerReferences)
}

func TestADeletedReplicaSetIsCreatedAgain(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.create(web(1))
	before := s.untilDone("v1").replicaSets["v1"]
	require.NoError(t, s.client.AppsV1().ReplicaSets(s.namespace).Delete(t.Context(), before.Name, metav1.DeleteOptions{}))
	s.until("another one is there", func(seen state) bool {
		rs := seen.replicaSets["v1"]
		return rs != nil && rs.UID != before.UID && rs.Name == before.Name && *rs.Spec.Replicas == 1
	})
}

func TestADeploymentThatIsBeingDeletedIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.create(web(1, func(d *appsv1.Deployment) { d.Finalizers = []string{"example.com/hold"} }))
	s.untilDone("v1")
	t.Cleanup(func() {
		patch := []byte(`{"metadata":{"finalizers":null}}`)
		_, err := s.client.AppsV1().Deployments(s.namespace).Patch(context.Background(), "web", types.MergePatchType, patch, metav1.PatchOptions{})
		assert.NoError(t, err)
	})
	require.NoError(t, s.client.AppsV1().Deployments(s.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	s.change(image("v2"), scaledTo(3))
	seen := s.observed()
	assert.Len(t, seen.replicaSets, 1)
	assert.EqualValues(t, 1, seen.size("v1"))

	s.createReplicaSet("by-hand", "v0", map[string]string{"app": "web"})
	s.change(func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 1 })
	assert.Empty(t, s.observed().replicaSets["v0"].OwnerReferences, "it must not adopt")
}

// limit sets a quota. No loop fills in its status here, so the test does.
func (s space) limit(name corev1.ResourceName, to string) {
	s.Helper()
	ctx, quotas := s.Context(), s.client.CoreV1().ResourceQuotas(s.namespace)
	hard := corev1.ResourceList{name: resource.MustParse(to)}
	quota, err := quotas.Get(ctx, "limit", metav1.GetOptions{})
	if err != nil {
		quota, err = quotas.Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "limit"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
		require.NoError(s, err)
		quota.Status.Used = corev1.ResourceList{name: resource.MustParse("0")}
	} else {
		quota.Spec.Hard = hard
		quota, err = quotas.Update(ctx, quota, metav1.UpdateOptions{})
		require.NoError(s, err)
	}
	quota.Status.Hard = hard
	_, err = quotas.UpdateStatus(ctx, quota, metav1.UpdateOptions{})
	require.NoError(s, err)
}

func TestPodsThatAQuotaRefusesAreAFailureUntilItIsRaised(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.limit("pods", "1")
	s.create(web(2))
	s.until("the failure is told", func(seen state) bool {
		return strings.HasPrefix(seen.condition("ReplicaFailure"), "True FailedCreate: ") && strings.Contains(seen.condition("ReplicaFailure"), "exceeded quota: limit")
	})
	s.limit("pods", "5")
	// The loop for ReplicaSets tries again with growing delays; a change of
	// size makes it try now.
	s.change(scaledTo(3))
	s.untilDone("v1")
	s.until("the failure is over", func(seen state) bool { return seen.condition("ReplicaFailure") == "" })
}

func TestAReplicaSetThatCannotBeCreatedIsToldOf(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.limit("count/replicasets.apps", "0")
	s.create(web(1))
	seen := s.until("the failure is told", func(seen state) bool {
		return strings.HasPrefix(seen.condition("Progressing"), `False ReplicaSetCreateError: Failed to create new replica set "web-`)
	})
	message := strings.TrimPrefix(seen.condition("Progressing"), "False ReplicaSetCreateError: ")
	s.untilEvent("ReplicaSetCreateError", message)

	s.limit("count/replicasets.apps", "2")
	s.change(func(d *appsv1.Deployment) { metav1.SetMetaDataAnnotation(&d.ObjectMeta, "try", "again") })
	s.untilDone("v1")
}
