package trustbundle

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/labs/bubble"
)

// serving is an API server that serves v1beta1, with some bundles.
func serving(there ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(there...)
	client.Resources = []*metav1.APIResourceList{{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: "certificates.k8s.io/v1beta1", APIResources: []metav1.APIResource{{Name: "clustertrustbundles"}},
	}}
	return client
}

// starting returns what makes the loop. It syncs only if it is said to.
func starting(client *fake.Clientset, syncs bool, made func(*Publisher)) bubble.Start {
	return func(_ context.Context, _ informers.SharedInformerFactory, note func(string)) func(context.Context) {
		p := New(discovering{Clientset: client}, func() []byte { return []byte("first") })
		made(p)
		bubble.Note(&p.loop.Sync, note, syncs)
		return func(ctx context.Context) { p.Run(ctx, 1) }
	}
}

// What decisions read of other objects:
//
//   - the bundles of the signer: which there are, and their certificates. Any change of one
//     wakes the loop: there should be one;
//   - the root CA, of whose changes the loop is told.
func TestTheLoopIsWokenByWhatItReads(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset, p *Publisher) error
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"the bundle is changed": {func(ctx context.Context, client *fake.Clientset, _ *Publisher) error {
			return bubble.Edit(ctx, client.CertificatesV1beta1().ClusterTrustBundles(), nameFor([]byte("first")), holding("another"))
		}, "kube-apiserver-serving"},
		"another comes": {func(ctx context.Context, client *fake.Clientset, _ *Publisher) error {
			_, err := client.CertificatesV1beta1().ClusterTrustBundles().Create(ctx, bundle("second"), metav1.CreateOptions{})
			return err
		}, "kube-apiserver-serving"},
		"it goes": {func(ctx context.Context, client *fake.Clientset, _ *Publisher) error {
			return client.CertificatesV1beta1().ClusterTrustBundles().Delete(ctx, nameFor([]byte("first")), metav1.DeleteOptions{})
		}, "kube-apiserver-serving"},
		"the root CA changes": {func(_ context.Context, _ *fake.Clientset, p *Publisher) error { p.Enqueue(); return nil }, "kube-apiserver-serving"},
		"nothing happens":     {func(context.Context, *fake.Clientset, *Publisher) error { return nil }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := serving(bundle("first"))
			var p *Publisher
			start := starting(client, false, func(made *Publisher) { p = made })
			assert.Equal(t, test.want, bubble.Woken(t, client, start, func(ctx context.Context) error { return test.change(ctx, client, p) }))
		})
	}
}

func TestABundleThatIsNeverShownIsLookedForSeldom(t *testing.T) {
	t.Parallel()
	deaf := func() *fake.Clientset {
		client := serving()
		bubble.Deaf(client, "clustertrustbundles")
		return client
	}
	client := deaf()
	start := starting(client, true, func(*Publisher) {})
	assert.Equal(t, "kube-apiserver-serving", bubble.Woken(t, client, start, bubble.Nothing), "it may have gone before it was shown")
	client = deaf()
	sent := func() int { return len(client.Actions()) }
	assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, true, func(*Publisher) {}), sent), bubble.Most)
}

func TestTheInformerAsksForTheNewestBundlesOfTheSigner(t *testing.T) {
	t.Parallel()
	for version, made := range map[string]func(*fake.Clientset) *api{
		"v1beta1":  func(client *fake.Clientset) *api { return betaAPI(client) },
		"v1alpha1": func(client *fake.Clientset) *api { return alphaAPI(client) },
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset()
			asked := make(chan metav1.ListOptions, 1)
			client.PrependReactor("list", "clustertrustbundles", func(action clienttesting.Action) (bool, runtime.Object, error) {
				assert.Equal(t, version, action.GetResource().Version)
				asked <- action.(clienttesting.ListActionImpl).ListOptions
				return false, nil, nil
			})
			informer := made(client).informer
			go informer.RunWithContext(t.Context())
			options := <-asked
			assert.Equal(t, "spec.signerName=kubernetes.io/kube-apiserver-serving", options.FieldSelector)
			assert.Empty(t, options.ResourceVersion, "0 would be whatever the API server has in its cache")
			require.Eventually(t, informer.HasSynced, time.Minute, time.Millisecond)
		})
	}
}
