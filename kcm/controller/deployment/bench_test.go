package deployment

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// BenchmarkSyncAmongNeighbours is a round for a Deployment that needs nothing,
// in a namespace with others. All of them have a ReplicaSet and ten old ones.
func BenchmarkSyncAmongNeighbours(b *testing.B) {
	for _, neighbours := range []int{0, 200, 2000} {
		b.Run(fmt.Sprintf("neighbours=%d", neighbours), func(b *testing.B) {
			d := rolling(4, "1", "0")
			c := settled(b, neighbours, d)
			for b.Loop() {
				require.NoError(b, c.sync(b.Context(), cache.MetaObjectToName(d)))
			}
		})
	}
}

// settled returns a controller that has nothing more to write about d.
func settled(b *testing.B, neighbours int, d *appsv1.Deployment) *Controller {
	objects := []runtime.Object{d}
	for _, rs := range withHistory(d) {
		objects = append(objects, rs)
	}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(Reads...)))
	apps := factory.Apps().V1()
	c := NewDeploymentController(b.Context(), apps.Deployments(), apps.ReplicaSets(), factory.Core().V1().Pods(), client)
	b.Cleanup(func() { shutDown(c) })
	replicaSets := apps.ReplicaSets().Informer().GetStore()
	for i := range neighbours {
		other := rolling(4, "1", "0")
		other.Name, other.UID = fmt.Sprintf("other-%d", i), types.UID(fmt.Sprintf("uid-other-%d", i))
		for _, rs := range withHistory(other) {
			require.NoError(b, replicaSets.Add(rs))
		}
	}
	for rounds := 0; rounds == 0 || len(writes(client)) > 0; rounds++ {
		require.Less(b, rounds, 10, "it goes on writing: %v", writes(client))
		fresh, err := client.AppsV1().Deployments(d.Namespace).Get(b.Context(), d.Name, metav1.GetOptions{})
		require.NoError(b, err)
		require.NoError(b, apps.Deployments().Informer().GetStore().Add(fresh))
		list, err := client.AppsV1().ReplicaSets(d.Namespace).List(b.Context(), metav1.ListOptions{})
		require.NoError(b, err)
		for i := range list.Items {
			require.NoError(b, replicaSets.Add(&list.Items[i]))
		}
		client.ClearActions()
		require.NoError(b, c.sync(b.Context(), cache.MetaObjectToName(d)))
	}
	return c
}

// withHistory returns the ReplicaSet of d and ten old ones without pods.
func withHistory(d *appsv1.Deployment) []*appsv1.ReplicaSet {
	replicaSets := []*appsv1.ReplicaSet{replicaSet(d, 2, 4)}
	for n := range 10 {
		replicaSets = append(replicaSets, replicaSet(d, 10+n, 0))
	}
	return replicaSets
}
