package replication

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// BenchmarkObserveAmongNeighbours is what a sync reads for a ReplicaSet that
// has to lose a pod, in a namespace with others. All of them belong to a
// Deployment, in which ten more have no pods any more.
func BenchmarkObserveAmongNeighbours(b *testing.B) {
	for _, neighbours := range []int{0, 200, 2000} {
		b.Run(fmt.Sprintf("neighbours=%d", neighbours), func(b *testing.B) {
			client := fake.NewClientset()
			factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
			sets, pods := factory.Apps().V1().ReplicaSets(), factory.Core().V1().Pods()
			c := NewReplicaSetController(b.Context(), sets, pods, client, BurstReplicas)
			b.Cleanup(func() { shutDown(c) })
			add := func(deployment, n int) *appsv1.ReplicaSet {
				set := testSet(3)
				set.Name = fmt.Sprintf("web-%d-%d", deployment, n)
				set.UID = types.UID(set.Name)
				set.OwnerReferences = []metav1.OwnerReference{{
					Kind: "Deployment", UID: types.UID(fmt.Sprint(deployment)), Controller: ptr.To(true),
				}}
				require.NoError(b, sets.Informer().GetStore().Add(set))
				return set
			}
			for deployment := range neighbours + 1 {
				for old := range 10 {
					add(deployment, old+1)
				}
				set := add(deployment, 0)
				for i := range 4 {
					require.NoError(b, pods.Informer().GetStore().Add(podOf(set.UID, named(fmt.Sprintf("%s-%d", set.Name, i)))))
				}
			}
			for b.Loop() {
				seen, err := c.observe(b.Context(), cache.NewObjectName("ns", "web-0-0"))
				require.NoError(b, err)
				require.Len(b, seen.related, 4)
			}
		})
	}
}
