package app

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

func TestTheCachesHaveWhatTheLoopsReadAndNoMore(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	kept := metav1.ObjectMeta{
		Name: "web", Generation: 2, Labels: map[string]string{"app": "web"}, Annotations: map[string]string{corev1.PodDeletionCost: "1"},
		Finalizers: []string{"example.com/held"}, OwnerReferences: []metav1.OwnerReference{{Name: "owner"}},
	}
	managed := *kept.DeepCopy()
	managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	doomed := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"}
	ended := corev1.ContainerStatus{Name: "ended", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: metav1.Unix(1, 0), Reason: "Error"}}}
	password := map[string][]byte{"password": []byte("secret")}

	for what, test := range map[string]struct{ seen, want runtime.Object }{
		"of a pod, what is to run there goes": {
			&corev1.Pod{ObjectMeta: managed,
				Spec: corev1.PodSpec{
					NodeName: "node", Volumes: []corev1.Volume{{Name: "data"}}, Containers: []corev1.Container{{Name: "web"}},
					InitContainers: []corev1.Container{{Name: "setup"}, {Name: "proxy", Image: "proxy:1", RestartPolicy: &always}},
				},
				Status: corev1.PodStatus{
					Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on memory", PodIP: "10.0.0.1",
					Conditions:            []corev1.PodCondition{{Type: corev1.PodScheduled}, ready, doomed},
					ContainerStatuses:     []corev1.ContainerStatus{{Name: "web", RestartCount: 3, Image: "web:1"}, {Name: "waits", Image: "web:1"}, ended},
					InitContainerStatuses: []corev1.ContainerStatus{{Name: "proxy", RestartCount: 4, ImageID: "sha256:1"}, {Name: "setup"}},
				}},
			&corev1.Pod{ObjectMeta: kept,
				Spec: corev1.PodSpec{NodeName: "node", InitContainers: []corev1.Container{{Name: "proxy", RestartPolicy: &always}}},
				Status: corev1.PodStatus{
					Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on memory",
					Conditions:            []corev1.PodCondition{ready, doomed},
					ContainerStatuses:     []corev1.ContainerStatus{{Name: "web", RestartCount: 3}, {Name: "ended", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: metav1.Unix(1, 0)}}}},
					InitContainerStatuses: []corev1.ContainerStatus{{Name: "proxy", RestartCount: 4}},
				}},
		},
		"of a Job's pod, all conditions stay": {
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"batch.kubernetes.io/job-tracking"}},
				Spec:       corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data"}}},
				Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "ConfigIssue", Status: corev1.ConditionTrue}}},
			},
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"batch.kubernetes.io/job-tracking"}},
				Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "ConfigIssue", Status: corev1.ConditionTrue}}},
			},
		},
		"a Secret for others is a name": {
			&corev1.Secret{ObjectMeta: managed, Type: corev1.SecretTypeOpaque, Data: password},
			&corev1.Secret{ObjectMeta: kept, Type: corev1.SecretTypeOpaque},
		},
		"the token of a ServiceAccount stays": {
			&corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, Data: password},
			&corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, Data: password},
		},
		"a bootstrap token stays": {
			&corev1.Secret{Type: corev1.SecretTypeBootstrapToken, Data: password},
			&corev1.Secret{Type: corev1.SecretTypeBootstrapToken, Data: password},
		},
		"what is written as a whole stays": {
			&corev1.ReplicationController{ObjectMeta: managed, Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{}}},
			&corev1.ReplicationController{ObjectMeta: kept, Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{}}},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for range 2 { // an object may come a second time
				trimmed, err := trim(test.seen)
				require.NoError(t, err)
				assert.Equal(t, test.want, trimmed)
			}
		})
	}
}

func TestWhatAnInformerLeavesForADeletedObjectIsNotTouched(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node"}}
	trimmed, err := trim(cache.DeletedFinalStateUnknown{Key: "default/web", Obj: pod})
	require.NoError(t, err)
	assert.Equal(t, cache.DeletedFinalStateUnknown{Key: "default/web", Obj: pod}, trimmed)
}
