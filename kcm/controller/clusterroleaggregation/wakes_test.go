package clusterroleaggregation

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/bubble"
)

// starting returns what makes the loop. It notes the roles that it is asked to look at, and syncs them only if it
// is said to.
func starting(client *fake.Clientset, syncs bool, edits ...func(*Controller)) bubble.Start {
	return func(_ context.Context, factory informers.SharedInformerFactory, note func(string)) func(context.Context) {
		c := New(factory.Rbac().V1().ClusterRoles(), client.RbacV1())
		for _, edit := range edits {
			edit(c)
		}
		bubble.Note(&c.loop.Sync, note, syncs)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	}
}

// What decisions read:
//
//   - of an aggregated role its selectors and its rules. Any change of them wakes it;
//   - of a plain role that it selects, directly or through others, the rules: those of a plain role wake all
//     that depend on it, those of an aggregated one nobody else;
//   - of every role which selectors it has, and its labels: both say who depends on whom, before and after.
func TestTheLoopIsWokenByWhatItReadsAndByNothingElse(t *testing.T) {
	t.Parallel()
	type change = func(ctx context.Context, client *fake.Clientset) error
	edit := func(name string, edit func(*rbacv1.ClusterRole)) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return bubble.Edit(ctx, client.RbacV1().ClusterRoles(), name, edit)
		}
	}
	rewritten := func(role *rbacv1.ClusterRole) { role.Rules = rules("delete") }
	noted := func(role *rbacv1.ClusterRole) { role.Annotations = map[string]string{"note": "x"} }
	relabelled := func(label string) func(*rbacv1.ClusterRole) {
		return func(role *rbacv1.ClusterRole) { role.Labels = labelled(role, label).Labels }
	}
	reselecting := func(selectors ...string) func(*rbacv1.ClusterRole) {
		return func(role *rbacv1.ClusterRole) { role.AggregationRule = selecting(role, selectors...).AggregationRule }
	}
	comes := func(role *rbacv1.ClusterRole) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			_, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
			return err
		}
	}
	goes := func(name string) change {
		return func(ctx context.Context, client *fake.Clientset) error {
			return client.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{})
		}
	}
	for what, test := range map[string]struct {
		change change
		want   string
	}{
		"the rules of a plain role change":             {edit("system:view", rewritten), "admin edit view"},
		"those of one that few depend on change":       {edit("system:admin", rewritten), "admin"},
		"those of one that nobody selects change":      {edit("other", rewritten), ""},
		"the rules of an aggregated role change":       {edit("view", rewritten), "view"},
		"a plain role has a note":                      {edit("system:view", noted), ""},
		"an aggregated role has a note":                {edit("view", noted), ""},
		"a role gets another label":                    {edit("system:view", relabelled("to-edit=true")), "admin edit view"},
		"a role that nobody has selected gets a label": {edit("other", relabelled("to-view=true")), "admin edit view"},
		"a role gets a label that matters to nobody":   {edit("system:admin", relabelled("to-admin=true kind=core")), "admin"},
		"an aggregated role is not selected any more":  {edit("view", relabelled("kind=core")), "admin edit"},
		"an aggregated role selects others":            {edit("view", reselecting("kind=core")), "admin edit view"},
		"a role is a plain one from now on":            {edit("view", func(role *rbacv1.ClusterRole) { role.AggregationRule = nil }), "admin edit"},
		"a role is aggregated from now on":             {edit("system:edit", reselecting("kind=core")), "admin edit system:edit"},
		"a role comes that is selected":                {comes(labelled(role("new", "list"), "to-edit=true")), "admin edit"},
		"a role comes that is not":                     {comes(role("new", "list")), ""},
		"a role comes that selects":                    {comes(selecting(role("new"), "to-view=true")), "new"},
		"a role goes that was selected":                {goes("system:edit"), "admin edit"},
		"an aggregated role goes":                      {goes("view"), "admin edit view"},
		"everybody is selected, and a role without labels comes": {func(ctx context.Context, client *fake.Clientset) error {
			if err := comes(selecting(role("all"), ""))(ctx, client); err != nil {
				return err
			}
			return comes(role("new", "list"))(ctx, client)
		}, "all"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(role("other", "get"))
			for _, role := range bundled() {
				assert.NoError(t, client.Tracker().Add(role))
			}
			assert.Equal(t, test.want, bubble.Woken(t, client, starting(client, false), func(ctx context.Context) error { return test.change(ctx, client) }), "who is looked at: %s", what)
		})
	}
}

func TestWhoWaitsForTheCacheDoesNotPoll(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		late   func(*Controller)
		answer error
	}{
		"no cache shows the rules": {late: func(c *Controller) {
			c.writes = controller.NewOwnWrites(bubble.Late{})
			c.writes.Wrote(cache.NewObjectName(metav1.NamespaceNone, "a"), "100")
		}},
		"no cache shows how the role has changed": {late: func(*Controller) {},
			answer: apierrors.NewConflict(rbacv1.Resource("clusterroles"), "a", errors.New("it has changed"))},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(labelled(role("x", "get"), "to=a"), selecting(role("a"), "to=a"))
			client.PrependReactor("patch", "clusterroles", func(clienttesting.Action) (bool, runtime.Object, error) {
				return test.answer != nil, nil, test.answer
			})
			var last error
			keep := func(c *Controller) { bubble.Last(&c.loop.Sync, &last) }
			sent := func() int { return len(client.Actions()) }
			assert.LessOrEqual(t, bubble.Busy(t, client, starting(client, true, test.late, keep), sent), bubble.Most)
			assert.ErrorIs(t, last, controller.ErrStaleCache, "it still waits")
		})
	}
}
