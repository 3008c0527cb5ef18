package bootstrapsigner

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/cluster-bootstrap/token/jws"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func init() {
	controller.ReallyCrash.Store(true) // or what panics would be tried again
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

var midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// secretOf is the secret of a token unless a test says otherwise.
func secretOf(id string) string { return id + "0123456789" }

// tokenNamed is a token that may sign, for ever.
func tokenNamed(id string, edits ...func(*corev1.Secret)) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id, UID: types.UID(id)},
		Type:       "bootstrap.kubernetes.io/token",
		Data: map[string][]byte{
			"token-id": []byte(id), "token-secret": []byte(secretOf(id)),
			"usage-bootstrap-signing": []byte("true"), "usage-bootstrap-authentication": []byte("true"),
		},
	}
	for _, edit := range edits {
		edit(secret)
	}
	return secret
}

// saying writes something into a token. If it is a time of day, it is that of January 1.
func saying(key, value string) func(*corev1.Secret) {
	if _, err := time.Parse(time.TimeOnly, value); err == nil {
		value = "2000-01-01T" + value + "Z"
	}
	return func(secret *corev1.Secret) { secret.Data[key] = []byte(value) }
}

// until says when a token runs out.
func until(value string) func(*corev1.Secret) { return saying("expiration", value) }

func without(key string) func(*corev1.Secret) {
	return func(secret *corev1.Secret) { delete(secret.Data, key) }
}

func named(name string) func(*corev1.Secret) {
	return func(secret *corev1.Secret) { secret.Name = name }
}

func opaque(secret *corev1.Secret) { secret.Type = corev1.SecretTypeOpaque }

func elsewhere(secret *corev1.Secret) { secret.Namespace = "shop" }

// info is the ConfigMap cluster-info, with a text that no token has signed.
func info(edits ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-public", Name: "cluster-info", UID: "uid-1", ResourceVersion: "1",
			Labels: map[string]string{"mine": "m"}, Annotations: map[string]string{"mine": "m"},
		},
		Data: map[string]string{"kubeconfig": "the cluster"},
	}
	for _, edit := range edits {
		edit(cm)
	}
	return cm
}

func data(key, value string) func(*corev1.ConfigMap) {
	return func(cm *corev1.ConfigMap) { cm.Data[key] = value }
}

// signedBy adds the signature that each token makes of what the text is then.
func signedBy(ids ...string) func(*corev1.ConfigMap) {
	return func(cm *corev1.ConfigMap) {
		for _, id := range ids {
			signature, err := jws.ComputeDetachedSignature(cm.Data["kubeconfig"], id, secretOf(id))
			if err != nil {
				panic(err)
			}
			cm.Data["jws-kubeconfig-"+id] = signature
		}
	}
}

func withUID(uid types.UID) func(*corev1.ConfigMap) {
	return func(cm *corev1.ConfigMap) { cm.UID = uid }
}

func immutable(cm *corev1.ConfigMap) { cm.Immutable = new(true) }

// signers says whose signatures a ConfigMap has, and which of them prove nothing.
func signers(cm *corev1.ConfigMap) string {
	var ids []string
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		id, ok := strings.CutPrefix(key, "jws-kubeconfig-")
		if !ok {
			continue
		}
		if !jws.DetachedTokenIsValid(cm.Data[key], cm.Data["kubeconfig"], id, secretOf(id)) {
			id += " with another text or secret"
		}
		ids = append(ids, id)
	}
	return "signed by " + cmp.Or(strings.Join(ids, ", "), "nobody")
}

// cluster is one in a bubble, where it is midnight on January 1, 2000.
type cluster struct {
	t       *testing.T
	client  *fake.Clientset
	mu      sync.Mutex
	version int
	// asked are the writes of cluster-info that were asked for, and refuse is what
	// the API server says to each.
	asked  []string
	refuse func() error
}

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// told runs a signer in a cluster while something happens there, and for six
// hours after that, and returns which writes it has asked for, and when.
func told(t *testing.T, happens func(c *cluster)) string {
	t.Helper()
	c := &cluster{t: t, version: 100, refuse: func() error { return nil }}
	synctest.Test(t, func(t *testing.T) {
		c.client = fake.NewSimpleClientset()
		c.client.PrependReactor("update", "configmaps", c.updates)
		factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(controller.Trim(Reads...)))
		signer := New(c.client, factory.Core().V1().Secrets())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		factory.Start(ctx.Done())
		go func() { signer.Run(ctx, 1); close(ended) }()
		synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
		happens(c)
		time.Sleep(6 * time.Hour)
		stop()
		select {
		case <-ended:
		case <-time.After(time.Hour):
			assert.Fail(t, "Run has not returned an hour after its context had ended")
		}
		factory.Shutdown()
	})
	return cmp.Or(strings.Join(c.asked, "; "), "nothing")
}

// updates takes a write only in the version that the ConfigMap has.
func (c *cluster) updates(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cm := action.(clienttesting.UpdateAction).GetObject().(*corev1.ConfigMap)
	c.asked = append(c.asked, time.Now().UTC().Format(time.TimeOnly)+" "+signers(cm))
	if err := c.refuse(); err != nil {
		return true, nil, err
	}
	now, err := c.client.Tracker().Get(configMaps, cm.Namespace, cm.Name)
	if err != nil {
		return true, nil, err
	}
	if version := now.(*corev1.ConfigMap).ResourceVersion; version != cm.ResourceVersion {
		return true, nil, apierrors.NewConflict(configMaps.GroupResource(), cm.Name, fmt.Errorf("it is at version %s, not %s", version, cm.ResourceVersion))
	}
	c.version++
	cm.ResourceVersion = strconv.Itoa(c.version)
	return false, nil, nil
}

// answers has the API server refuse writes from now on.
func (c *cluster) answers(refuse func() error) {
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

// object is what the API server of a test has.
type object interface {
	metav1.Object
	runtime.Object
}

func resourceOf(obj object) schema.GroupVersionResource {
	if _, ok := obj.(*corev1.Secret); ok {
		return corev1.SchemeGroupVersion.WithResource("secrets")
	}
	return configMaps
}

// has puts objects there, one after the other, in place of those that have their
// names, and waits each time until the signer rests.
func (c *cluster) has(objects ...object) {
	for _, obj := range objects {
		c.mu.Lock()
		c.version++
		obj.SetResourceVersion(strconv.Itoa(c.version))
		c.mu.Unlock()
		err := c.client.Tracker().Update(resourceOf(obj), obj, obj.GetNamespace())
		if apierrors.IsNotFound(err) {
			err = c.client.Tracker().Add(obj)
		}
		assert.NoError(c.t, err)
		synctest.Wait()
	}
}

// edited is cluster-info as the API server has it, and an edit of somebody's.
func (c *cluster) edited(edits ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	obj, err := c.client.Tracker().Get(configMaps, "kube-public", "cluster-info")
	if err != nil {
		assert.NoError(c.t, err)
		return info()
	}
	cm := obj.(*corev1.ConfigMap)
	for _, edit := range edits {
		edit(cm)
	}
	return cm
}

// loses has somebody delete an object, and waits until the signer rests.
func (c *cluster) loses(obj object) {
	assert.NoError(c.t, c.client.Tracker().Delete(resourceOf(obj), obj.GetNamespace(), obj.GetName()))
	synctest.Wait()
}
