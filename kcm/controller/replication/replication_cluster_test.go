package replication_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

func TestASetIsScaledUpAndDown(t *testing.T) {
	forEachKind(t, func(l lab) {
		set := l.createSet(newSet("web", 3))
		l.waitForAvailable("web", 3)
		l.scale("web", 5)
		l.waitForAvailable("web", 5)
		assert.Len(l, l.ownPods(set), 5)
		l.scale("web", 1)
		l.waitForAvailable("web", 1)
		assert.Len(l, l.ownPods(set), 1)
		l.scale("web", 0)
		l.waitForReplicas("web", 0)
		assert.Empty(l, l.ownPods(set))

		for _, message := range l.waitForEvents(set, "SuccessfulCreate", 5) {
			assert.Regexp(l, `^Created pod: web-\w+$`, message)
		}
		for _, message := range l.waitForEvents(set, "SuccessfulDelete", 5) {
			assert.Regexp(l, `^Deleted pod: web-\w+$`, message)
		}
	})
}

func TestAPodIsWhatTheTemplateSays(t *testing.T) {
	forEachKind(t, func(l lab) {
		set := l.createSet(newSet("web", 1, func(set *appsv1.ReplicaSet) {
			set.Labels = map[string]string{"of": "the-set"}
			set.Spec.Template.Labels["tier"] = "front"
			set.Spec.Template.Annotations = map[string]string{"note": "kept"}
		}))
		l.waitForReplicas("web", 1)
		pod := l.ownPods(set)[0]
		assert.Equal(l, "web-", pod.GenerateName)
		assert.Equal(l, map[string]string{"app": "web", "tier": "front"}, pod.Labels)
		assert.Equal(l, "kept", pod.Annotations["note"])
		assert.Equal(l, "main", pod.Spec.Containers[0].Name)
		ref := metav1.GetControllerOf(&pod)
		assert.Equal(l, l.kind, ref.Kind)
		assert.Equal(l, "web", ref.Name)
		assert.True(l, *ref.BlockOwnerDeletion)
	})
}

func TestAPodThatIsDeletedIsReplaced(t *testing.T) {
	forEachKind(t, func(l lab) {
		created := l.record(map[string]string{"app": "web"})
		set := l.createSet(newSet("web", 3))
		l.waitForAvailable("web", 3)
		l.deletePod(l.ownPods(set)[0].Name)
		l.waitForCreated(created, 4)
		l.waitForAvailable("web", 3)
		l.waitForSync("web", "witness")
		assert.Len(l, l.waitForCreated(created, 4), 4, "one pod for one pod")
	})
}

func TestAPodThatHasFinishedIsReplaced(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
		t.Run(string(phase), func(t *testing.T) {
			forEachKind(t, func(l lab) {
				created := l.record(map[string]string{"app": "web"})
				set := l.createSet(newSet("web", 2))
				l.waitForAvailable("web", 2)
				victim := l.ownPods(set)[0].DeepCopy()
				victim.Status.Phase = phase
				_, err := l.client.CoreV1().Pods(l.namespace).UpdateStatus(l.Context(), victim, metav1.UpdateOptions{})
				require.NoError(l, err)
				l.waitForCreated(created, 3)
				l.waitForAvailable("web", 2)
				assert.True(l, metav1.IsControlledBy(l.getPod(victim.Name), set), "the finished pod stays, and stays the set's")
			})
		})
	}
}

func TestARelabelledPodIsReleasedAndReplaced(t *testing.T) {
	forEachKind(t, func(l lab) {
		created := l.record(map[string]string{"app": "web"})
		set := l.createSet(newSet("web", 2))
		l.waitForAvailable("web", 2)
		pod := l.ownPods(set)[0].Name
		l.patchPod(pod, `{"metadata":{"labels":{"app":"debug"}}}`)
		l.waitForOwner(pod, "")
		l.waitForCreated(created, 3)
		l.waitForAvailable("web", 2)
		assert.Nil(l, l.getPod(pod).DeletionTimestamp, "it is left running")

		l.patchPod(pod, `{"metadata":{"labels":{"app":"web"}}}`)
		l.waitForReplicas("web", 2)
		clustertest.Eventually(l, "one of the three is deleted again", func(context.Context) (bool, string, error) {
			n := len(l.ownPods(set))
			return n == 2 && len(l.pods("app=web")) == 2, fmt.Sprintf("%d own pods", n), nil
		})
	})
}

func TestAnOrphanIsAdopted(t *testing.T) {
	forEachKind(t, func(l lab) {
		l.createPod("before", map[string]string{"app": "web"})
		created := l.record(map[string]string{"app": "web"})
		set := l.createSet(newSet("web", 2))
		l.waitForOwner("before", set.UID)
		l.waitForAvailable("web", 2)
		assert.Len(l, l.waitForCreated(created, 1), 1, "only one is created")

		l.patchPod("before", `{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"`+string(set.UID)+`"}]}}`)
		l.waitForOwner("before", set.UID)
		l.waitForSync("web", "witness")
		assert.Len(l, l.ownPods(set), 2)
		assert.Len(l, l.waitForCreated(created, 1), 1, "nor is one created for a pod that had lost its owner")
	})
}

func TestAnOrphanIsNotAdoptedByASetThatIsBeingDeleted(t *testing.T) {
	forEachKind(t, func(l lab) {
		l.createSet(newSet("web", 1, func(set *appsv1.ReplicaSet) { set.Finalizers = []string{"kcm-book.io/hold"} }))
		set := l.waitForReplicas("web", 1)
		release := func() {
			l.changeSet("web", func(set *appsv1.ReplicaSet) { set.Finalizers = nil })
		}
		require.NoError(l, l.deleteByName(l.Context(), "web"))
		l.createPod("orphan", map[string]string{"app": "web"})
		l.deletePod(l.ownPods(set)[0].Name)
		l.waitForSync("web", "witness")
		assert.Nil(l, metav1.GetControllerOf(l.getPod("orphan")))
		assert.Empty(l, l.ownPods(set), "nor is its own pod replaced")
		release()
	})
}

func TestASetThatIsRecreatedUnderItsNameStartsAfresh(t *testing.T) {
	forEachKind(t, func(l lab) {
		first := l.createSet(newSet("web", 3))
		l.waitForReplicas("web", 3)
		require.NoError(l, l.deleteByName(l.Context(), "web"))
		second := l.createSet(newSet("web", 2))
		require.NotEqual(l, first.UID, second.UID)
		l.waitForReplicas("web", 2)
		assert.Len(l, l.ownPods(second), 2)
		assert.Len(l, l.ownPods(first), 3, "they are the garbage collector's, which does not run here")
	})
}

// setQuota allows pods in the namespace. There is no quota controller that
// would fill in the status from which the API server counts.
func (l lab) setQuota(pods string) {
	l.Helper()
	quotas := l.client.CoreV1().ResourceQuotas(l.namespace)
	hard := corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
	quota, err := quotas.Get(l.Context(), "pods", metav1.GetOptions{})
	if err != nil {
		quota, err = quotas.Create(l.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "pods"}}, metav1.CreateOptions{})
		require.NoError(l, err)
		quota.Status.Used = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	}
	used := quota.Status.Used
	quota.Spec.Hard = hard
	quota, err = quotas.Update(l.Context(), quota, metav1.UpdateOptions{})
	require.NoError(l, err)
	quota.Status.Hard, quota.Status.Used = hard, used
	_, err = quotas.UpdateStatus(l.Context(), quota, metav1.UpdateOptions{})
	require.NoError(l, err)
}

func TestARefusalByAQuotaIsToldAndHealsWhenTheQuotaIsRaised(t *testing.T) {
	forEachKind(t, func(l lab) {
		l.setQuota("2")
		l.createSet(newSet("web", 5))
		set := l.waitForStatus("web", "a ReplicaFailure condition", func(s appsv1.ReplicaSetStatus) bool {
			return s.Replicas == 2 && len(s.Conditions) == 1
		})
		condition := set.Status.Conditions[0]
		assert.Equal(l, appsv1.ReplicaSetReplicaFailure, condition.Type)
		assert.Equal(l, corev1.ConditionTrue, condition.Status)
		assert.Equal(l, "FailedCreate", condition.Reason)
		assert.Regexp(l, `^pods "web-\w+" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=2, limited: pods=2$`, condition.Message)
		for _, message := range l.waitForEvents(set, "FailedCreate", 1) {
			assert.Regexp(l, `^Error creating: pods "web-\w+" is forbidden: exceeded quota: pods, `, message)
		}
		l.setQuota("10")
		l.waitForStatus("web", "5 replicas and no condition", func(s appsv1.ReplicaSetStatus) bool {
			return s.Replicas == 5 && len(s.Conditions) == 0
		})
	})
}

// A set of a hundred that may have ten asks for at most as many in vain as it
// got, and one, in the sync that creates them.
func TestASetThatAQuotaRefusesDoesNotFloodTheServer(t *testing.T) {
	forEachKind(t, func(l lab) {
		l.setQuota("10")
		l.createSet(newSet("web", 100))
		l.waitForStatus("web", "a ReplicaFailure condition", func(s appsv1.ReplicaSetStatus) bool { return len(s.Conditions) == 1 })
		refused := func() (n int) {
			events, err := clustertest.Cluster().AuditEvents(func(e cluster.AuditEvent) bool {
				return e.Verb == "create" && e.Resource == "pods" && e.Subresource == "" && e.Namespace == l.namespace && e.Code == 403
			})
			require.NoError(l, err)
			return len(events)
		}
		// The first sync wastes at most 11. Each retry after it wastes one, and
		// by now there can have been only few: they come ever more slowly.
		assert.LessOrEqual(l, refused(), 30)
		assert.Positive(l, refused())
	})
}

func TestPodsThatAreMarkedAsCheapGoFirst(t *testing.T) {
	forEachKind(t, func(l lab) {
		set := l.createSet(newSet("web", 4))
		l.waitForAvailable("web", 4)
		pods := l.ownPods(set)
		var keep []string
		for i, cost := range []string{"100", "-100", "100", "-100"} {
			l.patchPod(pods[i].Name, `{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"`+cost+`"}}}`)
			if cost == "100" {
				keep = append(keep, pods[i].Name)
			}
		}
		l.waitUntilPodsAreSeen("witness")
		l.scale("web", 2)
		l.waitForReplicas("web", 2)
		var left []string
		for _, pod := range l.ownPods(set) {
			left = append(left, pod.Name)
		}
		assert.ElementsMatch(l, keep, left)
	})
}

func TestPodsThatAreNotReadyGoBeforePodsThatAre(t *testing.T) {
	forEachKind(t, func(l lab) {
		set := l.createSet(newSet("web", 2))
		l.waitForAvailable("web", 2)
		ready := l.ownPods(set)
		l.changeSet("web", func(set *appsv1.ReplicaSet) {
			set.Spec.Replicas = ptr.To[int32](5)
			set.Spec.Template.Spec.Containers[0].Image = "example.com/web:broken"
		})
		l.waitForReplicas("web", 5)
		l.scale("web", 2)
		l.waitForAvailable("web", 2)
		for _, pod := range l.ownPods(set) {
			assert.Contains(l, []string{ready[0].Name, ready[1].Name}, pod.Name)
		}
	})
}

// A ReplicaSet whose owner has another one spreads what is left over the nodes,
// even if that means to part with the pods that have been ready for longer.
func TestPodsWithRelativesOnTheirNodeGoFirst(t *testing.T) {
	t.Parallel()
	client, namespace := clustertest.Client(t), clustertest.Namespace(t)
	l := lab{T: t, api: replicaSetAPI(client, namespace), client: client, namespace: namespace}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(nodes.Items), 2)
	crowded, quiet := nodes.Items[0].Name, nodes.Items[1].Name
	on := func(node string, owners ...metav1.OwnerReference) func(*appsv1.ReplicaSet) {
		return func(set *appsv1.ReplicaSet) {
			set.OwnerReferences = owners
			set.Spec.Template.Spec.NodeName = node
		}
	}
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "b1a5", Controller: ptr.To(true)}

	set := l.createSet(newSet("web", 2, on(crowded, owner)))
	l.createSet(newSet("sibling", 2, on(crowded, owner)))
	l.waitForAvailable("sibling", 2)
	l.waitForAvailable("web", 2)
	l.changeSet("web", func(set *appsv1.ReplicaSet) {
		set.Spec.Replicas = ptr.To[int32](4)
		set.Spec.Template.Spec.NodeName = quiet
	})
	l.waitForAvailable("web", 4)
	l.waitUntilPodsAreSeen("witness")
	l.scale("web", 2)
	l.waitForReplicas("web", 2)
	left := l.ownPods(set)
	require.Len(t, left, 2)
	for _, pod := range left {
		assert.Equal(t, quiet, pod.Spec.NodeName)
	}
}

func TestAPodIsAvailableWhenItHasBeenReadyForMinReadySeconds(t *testing.T) {
	const seconds = 4
	forEachKind(t, func(l lab) {
		l.createSet(newSet("web", 2, func(set *appsv1.ReplicaSet) { set.Spec.MinReadySeconds = seconds }))
		set := l.waitForStatus("web", "2 ready replicas", func(s appsv1.ReplicaSetStatus) bool { return s.ReadyReplicas == 2 })
		var last time.Time
		for _, pod := range l.ownPods(set) {
			since, ready := controller.PodReadySince(&pod)
			require.True(l, ready)
			require.False(l, controller.IsPodAvailable(&pod, seconds, time.Now()), "this machine is too slow to see it")
			if since.After(last) {
				last = since
			}
		}
		assert.Zero(l, set.Status.AvailableReplicas)
		l.waitForAvailable("web", 2)
		assert.GreaterOrEqual(l, time.Since(last), seconds*time.Second)
		assert.Less(l, time.Since(last), (seconds+3)*time.Second, "the controller looks when it is time")
	})
}

func TestTerminatingPodsAreCountedByReplicaSetsOnly(t *testing.T) {
	forEachKind(t, func(l lab) {
		l.createSet(newSet("web", 2, func(set *appsv1.ReplicaSet) {
			set.Spec.Template.Annotations = map[string]string{"lab.kcm-book.io/stop-after": "3s"}
		}))
		l.waitForAvailable("web", 2)
		l.scale("web", 0)
		if l.kind == "ReplicationController" {
			set := l.waitForReplicas("web", 0)
			assert.Nil(l, set.Status.TerminatingReplicas)
			return
		}
		l.waitForStatus("web", "2 terminating replicas", func(s appsv1.ReplicaSetStatus) bool {
			return s.Replicas == 0 && ptr.Deref(s.TerminatingReplicas, -1) == 2
		})
		assert.Len(l, l.pods("app=web"), 2)
		l.waitForStatus("web", "no terminating replicas", func(s appsv1.ReplicaSetStatus) bool {
			return ptr.Deref(s.TerminatingReplicas, -1) == 0
		})
		assert.Empty(l, l.pods("app=web"))
	})
}

func TestTwoHundredPodsAreTwoHundredPods(t *testing.T) {
	forEachKind(t, func(l lab) {
		created := l.record(map[string]string{"app": "web"})
		set := l.createSet(newSet("web", 200))
		l.waitForReplicas("web", 200)
		assert.Len(l, l.waitForCreated(created, 200), 200)
		l.waitForSync("web", "witness")
		assert.Len(l, l.waitForCreated(created, 200), 200, "nor any later")

		l.scale("web", 20)
		l.waitForReplicas("web", 20)
		l.waitForSync("web", "witness-2")
		assert.Len(l, l.ownPods(set), 20)
		assert.Len(l, l.waitForCreated(created, 200), 200)
	})
}

func TestInANamespaceThatIsBeingDeletedNothingIsCreatedAndNothingFails(t *testing.T) {
	forEachKind(t, func(l lab) {
		l.createSet(newSet("web", 0))
		l.waitForReplicas("web", 0)
		require.NoError(l, l.client.CoreV1().Namespaces().Delete(l.Context(), l.namespace, metav1.DeleteOptions{}))
		l.scale("web", 2)
		clustertest.Eventually(l, "a pod was refused", func(context.Context) (bool, string, error) {
			events, err := clustertest.Cluster().AuditEvents(func(e cluster.AuditEvent) bool {
				return e.Verb == "create" && e.Resource == "pods" && e.Namespace == l.namespace
			})
			for _, e := range events {
				assert.Equal(l, 403, e.Code)
			}
			return len(events) > 0, fmt.Sprint(events), err
		})
		set := l.waitForReplicas("web", 0)
		assert.Empty(l, set.Status.Conditions)
		assert.Empty(l, l.pods(""))
	})
}

func TestTwoSetsThatWantTheSamePodsLeaveEachOtherAlone(t *testing.T) {
	forEachKind(t, func(l lab) {
		shared := func(set *appsv1.ReplicaSet) {
			set.Spec.Selector.MatchLabels = map[string]string{"app": "shared"}
			set.Spec.Template.Labels = map[string]string{"app": "shared"}
		}
		created := l.record(map[string]string{"app": "shared"})
		one, two := l.createSet(newSet("one", 3, shared)), l.createSet(newSet("two", 2, shared))
		l.waitForAvailable("one", 3)
		l.waitForAvailable("two", 2)
		l.waitForSync("one", "witness")
		assert.Len(l, l.ownPods(one), 3)
		assert.Len(l, l.ownPods(two), 2)
		for _, name := range l.waitForCreated(created, 5) {
			assert.True(l, strings.HasPrefix(name, "one-") || strings.HasPrefix(name, "two-"))
		}
		assert.Len(l, l.waitForCreated(created, 5), 5)
	})
}
