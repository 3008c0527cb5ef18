package namespace

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes the loop. It notes what it is asked to look at, and syncs that
// on the server only if it is said to.
func (s *server) starting(t *testing.T, syncs bool, edits ...func(*NamespaceController)) bubble.Start {
	return func(_ context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		c := s.controller(t, factory)
		for _, edit := range edits {
			edit(c)
		}
		bubble.Note(&c.loop.Sync, note, syncs)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

// What decisions read of other objects:
//
//   - of all that is in a namespace which is being deleted: whether it is there, its finalizers,
//     and until when it may end. No informer shows that, and it is asked for again and again
//     until nothing is left;
//   - what resources there are, which is asked for each time.
//
// Of the namespace itself, which is read from the API server, it is news when it is to go, and
// when it is seen first. All else that may be said of it the loop writes itself.
func TestTheLoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset) error
	edit := func(name string, edit func(*corev1.Namespace)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Namespaces(), name, edit)
		}
	}
	comes := func(ns *corev1.Namespace) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
			return err
		}
	}
	goes := func(ns *corev1.Namespace) { ns.DeletionTimestamp, ns.Finalizers = new(metav1.Now()), []string{"x"} }
	named := func(name string, edits ...func(*corev1.Namespace)) *corev1.Namespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, edit := range edits {
			edit(ns)
		}
		return ns
	}
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"a namespace comes":                   {comes(named("new")), ""},
		"a namespace comes that is to go":     {comes(named("new", goes)), "new"},
		"a namespace is to go":                {edit("shop", goes), "shop"},
		"one that is to go has a note":        {edit("old", func(ns *corev1.Namespace) { ns.Annotations = map[string]string{"note": "x"} }), ""},
		"one that is to go has other reasons": {edit("old", func(ns *corev1.Namespace) { ns.Status.Conditions = []corev1.NamespaceCondition{{Type: "x"}} }), ""},
		"a namespace is gone": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Namespaces().Delete(ctx, "old", metav1.DeleteOptions{})
		}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(named("shop"), named("old", goes))
			assert.Equal(t, test.want, bubble.Woken(t, client, newServer().starting(t, false), func(ctx context.Context) error { return test.change(ctx, client) }))
		})
	}
}

func TestWhatEndsByTimeWakesTheLoop(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		prepare func(s *server)
		edit    func(c *NamespaceController)
		want    string
	}{
		"what is in it takes its time": {func(s *server) {
			s.there["configmaps"] = []metav1.PartialObjectMetadata{object("a", heldBy("mine"))}
		}, func(*NamespaceController) {}, "shop"},
		"what could not be listed is tried again": {func(s *server) { s.refused["list configmaps"] = errors.New("not now") }, func(*NamespaceController) {}, "shop"},
		"it is empty, and others hold it": {func(s *server) {
			s.namespace.Spec.Finalizers = append(s.namespace.Spec.Finalizers, "example.com/mine")
		}, func(c *NamespaceController) { c.resyncPeriod = 5 * time.Minute }, "shop"},
		"and it is not to be looked at again": {func(s *server) {
			s.namespace.Spec.Finalizers = append(s.namespace.Spec.Finalizers, "example.com/mine")
		}, func(c *NamespaceController) { c.resyncPeriod = 0 }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newServer()
			test.prepare(s)
			client := fake.NewClientset(s.namespace)
			assert.Equal(t, test.want, bubble.Woken(t, client, s.starting(t, true, test.edit), bubble.Nothing))
		})
	}
}
