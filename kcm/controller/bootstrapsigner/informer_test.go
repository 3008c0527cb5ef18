package bootstrapsigner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestTheInformerAsksForTheNewestClusterInfoAlone(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	type question struct {
		namespace string
		metav1.ListOptions
	}
	asked := make(chan question, 1)
	client.PrependReactor("list", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		asked <- question{action.GetNamespace(), action.(clienttesting.ListActionImpl).ListOptions}
		return false, nil, nil
	})
	informer := newInformer(client)
	go informer.RunWithContext(t.Context())
	options := <-asked
	assert.Equal(t, "kube-public", options.namespace, "the account of the loop may read ConfigMaps of no other namespace")
	assert.Equal(t, "metadata.name=cluster-info", options.FieldSelector)
	assert.Empty(t, options.ResourceVersion, "0 would be whatever the API server has in its cache")
	require.Eventually(t, informer.HasSynced, time.Minute, time.Millisecond)
}
