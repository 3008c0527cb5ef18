package rootca

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes the loop. It notes the namespaces that it is asked to look at,
// and syncs them only if it is said to.
func starting(client *fake.Clientset, syncs bool, made func(*Publisher)) bubble.Start {
	return func(_ context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		core := factory.Core().V1()
		p := NewPublisher(core.ConfigMaps(), core.Namespaces(), client, func() []byte { return []byte("ca") })
		made(p)
		sync := p.loop.Sync
		p.loop.Sync = func(ctx context.Context, key cache.ObjectName) error {
			note(key.Namespace)
			if !syncs {
				return nil
			}
			return sync(ctx, key)
		}
		return func(ctx context.Context) { p.Run(ctx, 1) }
	}
}

// What decisions read of other objects:
//
//   - the ConfigMap: whether it is there, its data and its description. Any change of it
//     wakes its namespace: a sync reads one cache;
//   - a namespace: whether it comes, or is not being deleted. The API server knows better,
//     so any other change of it wakes as well, which costs as little;
//   - the root CA, of whose changes the loop is told.
func TestTheLoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset, p *Publisher) error
	configMap := func(name string, edit func(*corev1.ConfigMap)) change {
		return func(ctx context.Context, client *fake.Clientset, _ *Publisher) error {
			return bubble.Edit(ctx, client.CoreV1().ConfigMaps("shop"), name, edit)
		}
	}
	comes := func(namespace, name string) change {
		return func(ctx context.Context, client *fake.Clientset, _ *Publisher) error {
			_, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			return err
		}
	}
	namespace := func(name string, edit func(*corev1.Namespace)) change {
		return func(ctx context.Context, client *fake.Clientset, _ *Publisher) error {
			return bubble.Edit(ctx, client.CoreV1().Namespaces(), name, edit)
		}
	}
	noted := map[string]string{"note": "x"}
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"the bundle is changed":        {configMap(ConfigMapName, func(cm *corev1.ConfigMap) { cm.Data = nil }), "shop"},
		"the description is taken out": {configMap(ConfigMapName, func(cm *corev1.ConfigMap) { cm.Annotations = nil }), "shop"},
		"somebody else makes it":       {comes("team", ConfigMapName), "team"},
		"another ConfigMap comes":      {comes("team", "mine"), ""},
		"another ConfigMap changes":    {configMap("mine", func(cm *corev1.ConfigMap) { cm.Annotations = noted }), ""},
		"a namespace has a note":       {namespace("shop", func(ns *corev1.Namespace) { ns.Annotations = noted }), "shop"},
		"a namespace is to go":         {namespace("shop", func(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceTerminating }), ""},
		"it goes": {func(ctx context.Context, client *fake.Clientset, _ *Publisher) error {
			return client.CoreV1().ConfigMaps("shop").Delete(ctx, ConfigMapName, metav1.DeleteOptions{})
		}, "shop"},
		"a namespace comes": {func(ctx context.Context, client *fake.Clientset, _ *Publisher) error {
			_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
			return err
		}, "new"},
		"the root CA changes": {func(_ context.Context, _ *fake.Clientset, p *Publisher) error { p.Enqueue(); return nil }, "shop team"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }
			client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}},
				&corev1.ConfigMap{ObjectMeta: named(ConfigMapName)}, &corev1.ConfigMap{ObjectMeta: named("mine")})
			var p *Publisher
			start := starting(client, false, func(made *Publisher) { p = made })
			assert.Equal(t, test.want, bubble.Woken(t, client, start, func(ctx context.Context) error { return test.change(ctx, client, p) }))
		})
	}
}

func TestAConfigMapThatIsNeverShownIsLookedForSeldom(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	bubble.Deaf(client, "configmaps")
	start := starting(client, true, func(*Publisher) {})
	assert.Equal(t, "shop", bubble.Woken(t, client, start, bubble.Nothing), "it may have gone before it was shown")
	sent := func() int { return len(client.Actions()) }
	assert.LessOrEqual(t, bubble.Busy(t, client, start, sent), bubble.Most)
}
