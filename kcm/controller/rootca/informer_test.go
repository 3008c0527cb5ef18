package rootca

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

func TestTheInformerAsksForTheNewestConfigMapsOfOneName(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	asked := make(chan metav1.ListOptions, 1)
	client.PrependReactor("list", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		asked <- action.(clienttesting.ListActionImpl).ListOptions
		return false, nil, nil
	})
	informer := NewInformer(client, 0)
	go informer.RunWithContext(t.Context())
	options := <-asked
	assert.Equal(t, "metadata.name="+ConfigMapName, options.FieldSelector)
	assert.Empty(t, options.ResourceVersion, "0 would be whatever the API server has in its cache")
	require.Eventually(t, informer.HasSynced, time.Minute, time.Millisecond)
}
