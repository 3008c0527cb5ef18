package trustbundle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func init() {
	controller.ReallyCrash.Store(true) // or what panics would be tried again
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

// bundle is what is to be published when the root CA is that text. Its UID is that text, too.
func bundle(rootCA string, edits ...func(*certificatesv1beta1.ClusterTrustBundle)) *certificatesv1beta1.ClusterTrustBundle {
	b := &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: nameFor([]byte(rootCA)), UID: types.UID(rootCA), ResourceVersion: "7"},
		Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: "kubernetes.io/kube-apiserver-serving", TrustBundle: rootCA},
	}
	for _, edit := range edits {
		edit(b)
	}
	return b
}

func holding(text string) func(*certificatesv1beta1.ClusterTrustBundle) {
	return func(b *certificatesv1beta1.ClusterTrustBundle) { b.Spec.TrustBundle = text }
}

func of(signer string) func(*certificatesv1beta1.ClusterTrustBundle) {
	return func(b *certificatesv1beta1.ClusterTrustBundle) {
		b.Name, b.Spec.SignerName = strings.ReplaceAll(signer, "/", ":")+":x", signer
	}
}

func named(name string) func(*certificatesv1beta1.ClusterTrustBundle) {
	return func(b *certificatesv1beta1.ClusterTrustBundle) {
		b.Name = "kubernetes.io:kube-apiserver-serving:" + name
	}
}

func going(b *certificatesv1beta1.ClusterTrustBundle) {
	b.DeletionTimestamp, b.Finalizers = new(metav1.NewTime(time.Unix(0, 0))), []string{"example.com/held"}
}

// short is how the tests call a bundle: by the root CA of whose hash its name is, if that is one of theirs.
func short(name string) string {
	for _, rootCA := range []string{"first", "second"} {
		if name == nameFor([]byte(rootCA)) {
			return rootCA
		}
	}
	return name[strings.LastIndex(name, ":")+1:]
}

// cluster is one in a bubble, where it is midnight on January 1, 2000.
type cluster struct {
	t         *testing.T
	client    *fake.Clientset
	publisher *Publisher
	rootCA    atomic.Value
	mu        sync.Mutex
	// asked are the writes that were asked for, with the UIDs that deletions have named.
	asked, uids []string
	again       int // deletions of what is gone
	// refuse is what the API server says to a request, that for what it serves among them: "get", "".
	refuse func(verb, name string) error
}

// discovering is an API server that says by HTTP what it serves, or never answers that.
type discovering struct {
	*fake.Clientset
	silent bool
}

func (d discovering) Discovery() discovery.DiscoveryInterface {
	return discovery.NewDiscoveryClientForConfigOrDie(&rest.Config{Host: "http://api", QPS: -1, Transport: d})
}

func (d discovering) RoundTrip(request *http.Request) (*http.Response, error) {
	if d.silent {
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	code := http.StatusOK
	list, err := d.Clientset.Discovery().ServerResourcesForGroupVersion(strings.TrimPrefix(request.URL.Path, "/apis/"))
	var answer any = list
	if refused, ok := errors.AsType[*apierrors.StatusError](err); ok {
		code, answer = int(refused.ErrStatus.Code), refused.ErrStatus
	} else if err != nil {
		return nil, err
	}
	body, err := json.Marshal(answer)
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: request,
	}, err
}

// told runs a publisher of the root CA "first" in a cluster that serves some versions, while something happens there, and
// for six hours after that, and returns which writes it has asked for, and when. What is there is there from the beginning.
func told(t *testing.T, versions []string, there []runtime.Object, happens func(c *cluster)) string {
	t.Helper()
	return in(t, versions, there, func(*cluster) {}, happens)
}

// in does the same, and prepares the cluster before the publisher runs.
func in(t *testing.T, versions []string, there []runtime.Object, prepare, happens func(c *cluster)) string {
	t.Helper()
	c := &cluster{t: t, refuse: func(string, string) error { return nil }}
	c.rootCA.Store([]byte("first"))
	prepare(c)
	synctest.Test(t, func(t *testing.T) {
		c.client = fake.NewSimpleClientset(there...)
		for _, version := range versions {
			c.client.Resources = append(c.client.Resources, &metav1.APIResourceList{
				TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
				GroupVersion: "certificates.k8s.io/" + version,
				APIResources: []metav1.APIResource{{Name: "certificatesigningrequests"}, {Name: "clustertrustbundles"}},
			})
		}
		c.client.PrependReactor("*", "clustertrustbundles", c.writes)
		c.client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
			err := c.says("get", "")
			return err != nil, nil, err
		})
		c.publisher = New(discovering{Clientset: c.client}, func() []byte { return c.rootCA.Load().([]byte) })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { c.publisher.Run(ctx, 1); close(ended) }()
		synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
		happens(c)
		time.Sleep(6 * time.Hour)
		stop()
		select {
		case <-ended:
		case <-time.After(time.Hour):
			assert.Fail(t, "Run has not returned an hour after its context had ended")
		}
	})
	assert.LessOrEqual(t, c.again, len(c.asked), "deletions of what is gone; each write may cause one")
	return cmp.Or(strings.Join(c.asked, "; "), "nothing")
}

var both = []string{"v1alpha1", "v1beta1"}

func nothing(*cluster) {}

func (c *cluster) says(verb, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refuse(verb, name)
}

func (c *cluster) writes(action clienttesting.Action) (bool, runtime.Object, error) {
	var name, what string
	switch action := action.(type) {
	case clienttesting.DeleteActionImpl:
		name = action.Name
		if _, err := c.client.Tracker().Get(action.GetResource(), "", name); apierrors.IsNotFound(err) {
			c.again++ // a creation's event may wake the loop before the cache shows the deletion after it
			return false, nil, nil
		}
		uid := "whoever has the name"
		if p := action.DeleteOptions.Preconditions; p != nil && p.UID != nil {
			uid = string(*p.UID)
		}
		c.uids = append(c.uids, uid)
	case clienttesting.CreateAction: // an update has the same methods
		switch b := action.GetObject().(type) {
		case *certificatesv1beta1.ClusterTrustBundle:
			name, what = b.Name, " with "+b.Spec.TrustBundle
		case *certificatesv1alpha1.ClusterTrustBundle:
			name, what = b.Name, " with "+b.Spec.TrustBundle+" in v1alpha1"
		}
	default:
		return false, nil, nil
	}
	c.asked = append(c.asked, fmt.Sprintf("%s %s %s%s", time.Now().UTC().Format(time.TimeOnly), action.GetVerb(), short(name), what))
	err := c.says(action.GetVerb(), short(name))
	return err != nil, nil, err
}

// answers has the API server refuse requests from now on.
func (c *cluster) answers(refuse func(verb, name string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = refuse
}

// at waits until it is that time.
func (c *cluster) at(clock string) {
	until, err := time.Parse(time.DateTime, "2000-01-01 "+clock)
	assert.NoError(c.t, err)
	time.Sleep(time.Until(until))
}

var resource = certificatesv1beta1.SchemeGroupVersion.WithResource("clustertrustbundles")

// has puts a bundle there, in place of one that has its name, and waits until the publisher rests.
func (c *cluster) has(b *certificatesv1beta1.ClusterTrustBundle) {
	err := c.client.Tracker().Update(resource, b, "")
	if apierrors.IsNotFound(err) {
		err = c.client.Tracker().Add(b)
	}
	assert.NoError(c.t, err)
	synctest.Wait()
}

// follows has the root CA be another.
func (c *cluster) follows(rootCA string) {
	c.rootCA.Store([]byte(rootCA))
	c.publisher.Enqueue()
	synctest.Wait()
}
