package bootstrapsigner

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes the loop. It syncs only if it is said to.
func starting(client *fake.Clientset, syncs bool, edits ...func(*Signer)) bubble.Start {
	return func(_ context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		s := New(client, factory.Core().V1().Secrets())
		for _, edit := range edits {
			edit(s)
		}
		bubble.Note(&s.loop.Sync, note, syncs)
		return func(ctx context.Context) { s.Run(ctx, 1) }
	}
}

// What decisions read:
//
//   - cluster-info: all of it. Any change of it wakes;
//   - bootstrap tokens: name, data, and which of them is older. Any change of one wakes: there
//     are few, and most of what is in them is read;
//   - the time, when the next token runs out.
func TestTheLoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset) error
	configMap := func(name string) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().ConfigMaps("kube-public"), name, data("kubeconfig", "another"))
		}
	}
	secret := func(namespace, name string, edit func(*corev1.Secret)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Secrets(namespace), name, edit)
		}
	}
	comes := func(s *corev1.Secret) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.CoreV1().Secrets(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
			return err
		}
	}
	goes := func(namespace, name string) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		}
	}
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"the text is another":               {configMap("cluster-info"), "cluster-info"},
		"another ConfigMap changes":         {configMap("notes"), ""},
		"a token comes":                     {comes(tokenNamed("bbbbbb")), "cluster-info"},
		"a token comes elsewhere":           {comes(tokenNamed("bbbbbb", elsewhere)), ""},
		"a Secret comes that is no token":   {comes(tokenNamed("bbbbbb", opaque)), ""},
		"a token may not sign any more":     {secret("kube-system", "bootstrap-token-aaaaaa", without("usage-bootstrap-signing")), "cluster-info"},
		"a token is prolonged":              {secret("kube-system", "bootstrap-token-aaaaaa", until("10:00:00")), "cluster-info"},
		"a Secret changes that is no token": {secret("kube-system", "password", saying("token-id", "password")), ""},
		"a token changes elsewhere":         {secret("shop", "bootstrap-token-aaaaaa", until("10:00:00")), ""},
		"a token goes":                      {goes("kube-system", "bootstrap-token-aaaaaa"), "cluster-info"},
		"a token goes elsewhere":            {goes("shop", "bootstrap-token-aaaaaa"), ""},
		"a Secret goes that is no token":    {goes("kube-system", "password"), ""},
		"cluster-info goes: nothing is signed": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().ConfigMaps("kube-public").Delete(ctx, "cluster-info", metav1.DeleteOptions{})
		}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(info(), info(func(cm *corev1.ConfigMap) { cm.Name = "notes" }),
				tokenNamed("aaaaaa"), tokenNamed("aaaaaa", elsewhere), tokenNamed("aaaaaa", opaque, named("password")))
			assert.Equal(t, test.want, bubble.Woken(t, client, starting(client, false), func(ctx context.Context) error { return test.change(ctx, client) }))
		})
	}
}

func TestWhatEndsByTimeWakesTheLoop(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		token *corev1.Secret
		want  string
	}{
		"a token runs out":                    {tokenNamed("aaaaaa", until("00:05:00")), "cluster-info"},
		"a token runs out later":              {tokenNamed("aaaaaa", until("01:00:00")), ""},
		"a token does not run out":            {tokenNamed("aaaaaa"), ""},
		"one runs out that does not sign":     {tokenNamed("aaaaaa", until("00:05:00"), without("usage-bootstrap-signing")), ""},
		"one has run out, and is still there": {tokenNamed("aaaaaa", until("1999-12-31T00:00:00Z")), ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(info(), test.token)
			assert.Equal(t, test.want, bubble.Woken(t, client, starting(client, true), bubble.Nothing))
		})
	}
}

func TestWhoWaitsForTheCacheDoesNotPoll(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(info(), tokenNamed("aaaaaa"))
	bubble.Ahead(client)
	late := func(s *Signer) { s.writes = controller.NewOwnWrites(bubble.Late{}) }
	sent := func() int { return len(client.Actions()) }
	assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, true, late), sent), bubble.Most)
}

func TestAnOwnWriteIsWaitedForBeforeTheNext(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(info(), tokenNamed("aaaaaa"))
	bubble.Ahead(client)
	bubble.Deaf(client, "configmaps")
	late := func(s *Signer) { s.writes = controller.NewOwnWrites(bubble.Late{}) }
	comes := func(ctx context.Context) error {
		_, err := client.CoreV1().Secrets("kube-system").Create(ctx, tokenNamed("bbbbbb"), metav1.CreateOptions{})
		return err
	}
	bubble.Woken(t, client, starting(client, true, late), comes)
	writes := 0
	for _, action := range client.Actions() {
		if action.Matches("update", "configmaps") {
			writes++
		}
	}
	assert.Equal(t, 1, writes, "writes: the cache does not show the first one yet when another token comes")
}
