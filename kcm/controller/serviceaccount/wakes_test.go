package serviceaccount

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kcm-book/kcm-book/labs/bubble"
)

// startingAccounts returns what makes the loop for accounts. It notes the namespaces that
// it is asked to look at, and syncs them only if it is said to.
func startingAccounts(client *fake.Clientset, syncs bool) bubble.Start {
	return func(_ context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		core := factory.Core().V1()
		c := NewServiceAccountsController(core.ServiceAccounts(), core.Namespaces(), client, DefaultServiceAccountsControllerOptions())
		bubble.Note(&c.loop.Sync, note, syncs)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

func namespaceIn(name string, phase corev1.NamespacePhase) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: phase}}
}

// What decisions read of other objects:
//
//   - a namespace: whether it is there, and its phase. Any change of it wakes its key: a
//     namespace changes seldom, and a sync reads two caches;
//   - accounts of the namespace: which are there. One that comes or changes wakes nobody:
//     nothing is to be done about it.
func TestTheAccountsLoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset) error
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"a namespace comes": {func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.CoreV1().Namespaces().Create(ctx, namespaceIn("new", corev1.NamespaceActive), metav1.CreateOptions{})
			return err
		}, "new"},
		"a namespace is active again": {func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().Namespaces(), "old", func(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceActive })
		}, "old"},
		"a namespace goes": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().Namespaces().Delete(ctx, "old", metav1.DeleteOptions{})
		}, ""},
		"an account goes": {func(ctx context.Context, client *fake.Clientset) error {
			return client.CoreV1().ServiceAccounts("shop").Delete(ctx, "builder", metav1.DeleteOptions{})
		}, "shop"},
		"an account comes": {func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.CoreV1().ServiceAccounts("shop").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
			return err
		}, ""},
		"an account has a note": {func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.CoreV1().ServiceAccounts("shop"), "builder", func(a *corev1.ServiceAccount) { a.Annotations = map[string]string{"note": "x"} })
		}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(namespaceIn("shop", corev1.NamespaceActive), namespaceIn("old", corev1.NamespaceTerminating), builder("uid-1"))
			assert.Equal(t, test.want, bubble.Woken(t, client, startingAccounts(client, false), func(ctx context.Context) error { return test.change(ctx, client) }))
		})
	}
}

func TestAnAccountThatIsNeverShownIsLookedForSeldom(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(namespaceIn("shop", corev1.NamespaceActive))
	bubble.Deaf(client, "serviceaccounts")
	assert.Equal(t, "shop", bubble.Woken(t, client, startingAccounts(client, true), bubble.Nothing), "it may have gone before it was shown")
	sent := func() int { return len(client.Actions()) }
	assert.LessOrEqual(t, bubble.Busy(t, client, startingAccounts(client, true), sent), bubble.Most)
}

// What decisions read of other objects:
//
//   - a token Secret: whether it is there, its annotations and its data. Any change of it
//     wakes its key;
//   - its account: whether it is there. One that comes wakes nobody: a Secret without an
//     account is deleted when it is seen. One that goes wakes its own key, for all its Secrets;
//   - the list of Secrets in the account of a Secret that is gone. A list that changes wakes
//     nobody: it may name any Secret, and is wrong only when one goes;
//   - the root CA, of whose changes the loop is told.
func TestTheTokensLoopsAreWokenByWhatTheyReadAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset, c *TokensController) error
	secret := func(name string, edit func(*corev1.Secret)) change {
		return func(ctx context.Context, client *fake.Clientset, _ *TokensController) error {
			return bubble.Edit(ctx, client.CoreV1().Secrets("shop"), name, edit)
		}
	}
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"a token is lost":                   {secret("builder-token", func(s *corev1.Secret) { s.Data = nil }), "builder-token"},
		"a token is another account's":      {secret("builder-token", func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountNameKey] = "tester" }), "builder-token"},
		"a token has a note":                {secret("builder-token", func(s *corev1.Secret) { s.Annotations["note"] = "x" }), "builder-token"},
		"a Secret that is no token changes": {secret("password", func(s *corev1.Secret) { s.Data = map[string][]byte{"a": nil} }), ""},
		"a token goes": {func(ctx context.Context, client *fake.Clientset, _ *TokensController) error {
			return client.CoreV1().Secrets("shop").Delete(ctx, "builder-token", metav1.DeleteOptions{})
		}, "builder-token"},
		"an account goes": {func(ctx context.Context, client *fake.Clientset, _ *TokensController) error {
			return client.CoreV1().ServiceAccounts("shop").Delete(ctx, "builder", metav1.DeleteOptions{})
		}, "builder"},
		"another account of a name comes": {func(ctx context.Context, client *fake.Clientset, _ *TokensController) error {
			return bubble.Edit(ctx, client.CoreV1().ServiceAccounts("shop"), "builder", func(a *corev1.ServiceAccount) { a.UID = "uid-2" })
		}, "builder"},
		"an account comes": {func(ctx context.Context, client *fake.Clientset, _ *TokensController) error {
			_, err := client.CoreV1().ServiceAccounts("shop").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "tester"}}, metav1.CreateOptions{})
			return err
		}, ""},
		"the list of an account changes": {func(ctx context.Context, client *fake.Clientset, _ *TokensController) error {
			return bubble.Edit(ctx, client.CoreV1().ServiceAccounts("shop"), "builder", func(a *corev1.ServiceAccount) { a.Secrets = nil })
		}, ""},
		"the root CA changes": {func(_ context.Context, _ *fake.Clientset, c *TokensController) error { c.Enqueue(); return nil }, "builder-token"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			password := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "password"}}
			client := fake.NewClientset(builder("uid-1", "builder-token"), tokenSecret("uid-1", map[string]string{"token": "x"}), password)
			var c *TokensController
			start := func(_ context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
				core := factory.Core().V1()
				c = NewTokensController(core.ServiceAccounts(), core.Secrets(), client, TokensControllerOptions{RootCA: func() []byte { return rootCA }})
				c.accounts.Sync = func(_ context.Context, key accountKey) error { note(key.Name); return nil }
				c.secrets.Sync = func(_ context.Context, key secretKey) error { note(key.Name); return nil }
				return func(ctx context.Context) { c.Run(ctx, 1) }
			}
			assert.Equal(t, test.want, bubble.Woken(t, client, start, func(ctx context.Context) error { return test.change(ctx, client, c) }))
		})
	}
}
