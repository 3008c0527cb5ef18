package legacytokencleaner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func init() {
	controller.ReallyCrash.Store(true) // or what panics would be tried again
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

// tenDays is the period of all tests.
const tenDays = 10 * 24 * time.Hour

var (
	secrets  = corev1.SchemeGroupVersion.WithResource("secrets")
	accounts = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
)

// day returns its midnight, or a later time of it: "1999-12-24", "1999-12-24 12:00".
func day(text string) time.Time {
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	panic(text)
}

// secret is a token for the account builder that was made on June 1, 1999, and never used.
func secret(edits ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "builder-token", UID: "uid-token", CreationTimestamp: metav1.NewTime(day("1999-06-01")),
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "builder", corev1.ServiceAccountUIDKey: "uid-builder"},
			Labels:      map[string]string{},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func named(name string) func(*corev1.Secret) { return func(s *corev1.Secret) { s.Name = name } }

func created(when string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.CreationTimestamp = metav1.NewTime(day(when)) }
}

func used(label string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Labels[lastUsedLabel] = label }
}

func marked(label string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Labels[invalidSinceLabel] = label }
}

func unmarked(s *corev1.Secret) { delete(s.Labels, invalidSinceLabel) }

// account is builder, which lists these Secrets.
func account(lists ...string) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "builder", UID: "uid-builder"}}
	for _, name := range lists {
		a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: name})
	}
	return a
}

// trackedSince is what API servers say that have noted the use of tokens since that day.
func trackedSince(day string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-apiserver-legacy-service-account-token-tracking"},
		Data:       map[string]string{"since": day},
	}
}

// mounting is a pod that mounts the Secret of that name.
func mounting(name string) *corev1.Pod {
	volume := corev1.Volume{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{volume}}}
}

// cluster is one in a bubble, where it is midnight on January 1, 2000.
type cluster struct {
	t       *testing.T
	client  *fake.Clientset
	version atomic.Int64
	mu      sync.Mutex
	// asked is what the API server was asked to do with Secrets, and meant are the UIDs and versions that
	// were named. Looks are the questions about the ConfigMap.
	asked, meant []string
	looks        int
	// refuse is what the API server says to a request, "get" or "patch" or "delete", and before it has
	// somebody else be faster.
	refuse func(verb string) error
	before func(verb string)
}

// told runs a controller in a cluster that has these objects while something happens there, and for 24
// days after that, or until a day after its last token has gone. It returns what it has asked for, and on
// which days.
func told(t *testing.T, there []runtime.Object, happens func(c *cluster)) string {
	t.Helper()
	c := &cluster{t: t, refuse: func(string) error { return nil }, before: func(string) {}}
	synctest.Test(t, func(t *testing.T) {
		c.client = fake.NewSimpleClientset(there...)
		c.client.PrependReactor("get", "configmaps", c.gets)
		c.client.PrependReactor("patch", "secrets", c.patches)
		c.client.PrependReactor("delete", "secrets", c.deletes)
		factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(controller.Trim(Reads...)))
		core := factory.Core().V1()
		controller := New(core.ServiceAccounts(), core.Secrets(), core.Pods(), c.client, tenDays)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		factory.Start(ctx.Done())
		synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
		go func() { controller.Run(ctx, 1); close(ended) }()
		happens(c)
		for day, gone := 0, false; day < 24 && !gone; day++ {
			left, err := c.client.Tracker().List(secrets, corev1.SchemeGroupVersion.WithKind("Secret"), "")
			assert.NoError(t, err)
			gone = meta.LenList(left) == 0
			time.Sleep(24 * time.Hour)
		}
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

func (c *cluster) gets(clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	err := c.refuse("get")
	return err != nil, nil, err
}

// patches answers a request to change the labels of a Secret.
func (c *cluster) patches(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	patch := action.(clienttesting.PatchActionImpl)
	var content corev1.Secret
	assert.NoError(c.t, json.Unmarshal(patch.Patch, &content))
	c.ask("mark "+patch.Name+" with "+content.Labels[invalidSinceLabel], string(content.UID), content.ResourceVersion)
	c.before("patch")
	if err := c.refuse("patch"); err != nil {
		return true, nil, err
	}
	found, err := c.found(patch.Name, string(content.UID), content.ResourceVersion)
	if err != nil {
		return true, nil, err
	}
	for key, value := range content.Labels {
		found.Labels[key] = value
	}
	found.ResourceVersion = c.next()
	return true, found, c.client.Tracker().Update(secrets, found, found.Namespace)
}

func (c *cluster) deletes(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	del := action.(clienttesting.DeleteActionImpl)
	uid, version := "any", "any"
	if p := del.DeleteOptions.Preconditions; p != nil && p.UID != nil {
		uid = string(*p.UID)
	}
	if p := del.DeleteOptions.Preconditions; p != nil && p.ResourceVersion != nil {
		version = *p.ResourceVersion
	}
	c.ask("delete "+del.Name, uid, version)
	c.before("delete")
	if err := c.refuse("delete"); err != nil {
		return true, nil, err
	}
	if _, err := c.found(del.Name, uid, version); err != nil {
		return true, nil, err
	}
	return true, nil, c.client.Tracker().Delete(secrets, del.Namespace, del.Name)
}

func (c *cluster) ask(what, uid, version string) {
	c.asked = append(c.asked, time.Now().UTC().Format(time.DateOnly)+" "+what)
	c.meant = append(c.meant, uid+" at "+version)
}

// found returns a Secret, if it is the one that is meant.
func (c *cluster) found(name, uid, version string) (*corev1.Secret, error) {
	obj, err := c.client.Tracker().Get(secrets, "shop", name)
	if err != nil {
		return nil, err
	}
	found := obj.(*corev1.Secret).DeepCopy()
	if uid != string(found.UID) {
		return nil, apierrors.NewConflict(secrets.GroupResource(), name, errors.New("Precondition failed: UID in precondition: a, UID in object meta: b"))
	}
	if version != found.ResourceVersion {
		return nil, apierrors.NewConflict(secrets.GroupResource(), name, fmt.Errorf("it is at version %s", found.ResourceVersion))
	}
	return found, nil
}

// next returns a resource version.
func (c *cluster) next() string { return strconv.FormatInt(100+c.version.Add(1), 10) }

// until waits for a day, or a time.
func (c *cluster) until(when string) { time.Sleep(time.Until(day(when))) }

// edit has somebody change a Secret as it is now.
func (c *cluster) edit(name string, edit func(*corev1.Secret)) {
	obj, err := c.client.Tracker().Get(secrets, "shop", name)
	assert.NoError(c.t, err)
	found := obj.(*corev1.Secret).DeepCopy()
	edit(found)
	found.ResourceVersion = c.next()
	assert.NoError(c.t, c.client.Tracker().Update(secrets, found, "shop"))
}
