package serviceaccount

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"pgregory.net/rapid"
)

func accountsNamed(names ...string) []corev1.ServiceAccount {
	var accounts []corev1.ServiceAccount
	for _, name := range names {
		accounts = append(accounts, corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return accounts
}

// seenNamespace is what the loop sees of team-a when it has some accounts.
func seenNamespace(phase corev1.NamespacePhase, has ...string) observedNamespace {
	seen := observedNamespace{namespace: &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "team-a"},
		Status:     corev1.NamespaceStatus{Phase: phase},
	}}
	for _, account := range accountsNamed(has...) {
		account.Namespace = "team-a"
		seen.accounts = append(seen.accounts, &account)
	}
	return seen
}

// creations says what is to be created, as "create team-a/default".
func creations(accounts []*corev1.ServiceAccount) string {
	var names []string
	for _, account := range accounts {
		names = append(names, account.Namespace+"/"+account.Name)
	}
	if len(names) == 0 {
		return "create nothing"
	}
	slices.Sort(names)
	return "create " + strings.Join(names, ", ")
}

func TestANamespaceIsGivenTheAccountsThatItLacks(t *testing.T) {
	t.Parallel()
	active, terminating := corev1.NamespaceActive, corev1.NamespaceTerminating
	for behaviour, test := range map[string]struct {
		seen   observedNamespace
		wanted []string
		plan   string
	}{
		"a namespace without accounts is given default":      {seenNamespace(active), []string{"default"}, "create team-a/default"},
		"a namespace that has default is given nothing":      {seenNamespace(active, "default"), []string{"default"}, "create nothing"},
		"an account of another name is no default":           {seenNamespace(active, "builder"), []string{"default"}, "create team-a/default"},
		"of several accounts only the missing are made":      {seenNamespace(active, "default", "other"), []string{"default", "builder", "tester"}, "create team-a/builder, team-a/tester"},
		"accounts that nobody asked for stay":                {seenNamespace(active, "builder"), nil, "create nothing"},
		"a namespace that is being deleted is given nothing": {seenNamespace(terminating), []string{"default"}, "create nothing"},
		"a namespace that is gone is given nothing":          {observedNamespace{}, []string{"default"}, "create nothing"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.plan, creations(decideAccounts(test.seen, accountsNamed(test.wanted...))), "wanted in every namespace: %s", strings.Join(test.wanted, ", "))
		})
	}

	t.Run("every namespace is given accounts of its own", func(t *testing.T) {
		t.Parallel()
		wanted := accountsNamed("default")
		one, other := seenNamespace(active), seenNamespace(active)
		other.namespace.Name = "team-b"
		plans := [][]*corev1.ServiceAccount{decideAccounts(one, wanted), decideAccounts(other, wanted)}
		assert.Equal(t, "create team-a/default, then create team-b/default", creations(plans[0])+", then "+creations(plans[1]))
		assert.Empty(t, wanted[0].Namespace, "the template belongs to no namespace")
	})
	t.Run("what is there and what is created is what is wanted", func(t *testing.T) {
		t.Parallel()
		names := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), rapid.ID)
		rapid.Check(t, func(t *rapid.T) {
			has, wanted := names.Draw(t, "there"), names.Draw(t, "wanted")
			var missing []*corev1.ServiceAccount
			for _, account := range accountsNamed(wanted...) {
				if !slices.Contains(has, account.Name) {
					account.Namespace = "team-a"
					missing = append(missing, &account)
				}
			}
			plan := decideAccounts(seenNamespace(active, has...), accountsNamed(wanted...))
			assert.Equal(t, creations(missing), creations(plan), "there: %q, wanted: %q", has, wanted)
		})
	})
}

func TestCreationsThatAreRefused(t *testing.T) {
	t.Parallel()
	accounts := corev1.Resource("serviceaccounts")
	terminating := apierrors.NewForbidden(accounts, "first", errors.New("namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	const good, bad = "all is well", "the key is tried again"
	for behaviour, test := range map[string]struct {
		refusal error
		outcome string
	}{
		"an account that has come in the meantime is no failure": {apierrors.NewAlreadyExists(accounts, "first"), good},
		"a namespace that is being deleted by now is no failure": {terminating, good},
		"what a quota refuses is a failure":                      {apierrors.NewForbidden(accounts, "first", errors.New("exceeded quota: none")), bad},
		"what a server in trouble does not do is a failure":      {apierrors.NewInternalError(errors.New("etcdserver: no leader")), bad},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			outcome, created := actWith(t, map[string]error{"first": test.refusal})
			assert.Equal(t, test.outcome, outcome, "the API server said: %s", test.refusal)
			assert.Equal(t, "create team-a/second", created, "two accounts were to be created, and the first was refused: %s", test.refusal)
		})
	}
	t.Run("what is accepted is created", func(t *testing.T) {
		t.Parallel()
		outcome, created := actWith(t, nil)
		assert.Equal(t, good+": create team-a/first, team-a/second", outcome+": "+created)
	})
}

// actWith has the loop create two accounts, of which the API server refuses some,
// and says how it went and which accounts there are afterwards.
func actWith(t *testing.T, refusals map[string]error) (outcome, created string) {
	t.Helper()
	client := fake.NewClientset()
	client.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		err := refusals[action.(clienttesting.CreateAction).GetObject().(*corev1.ServiceAccount).Name]
		return err != nil, nil, err
	})
	var missing []*corev1.ServiceAccount
	for _, account := range accountsNamed("first", "second") {
		account.Namespace = "team-a"
		missing = append(missing, &account)
	}
	outcome = "all is well"
	if err := (&ServiceAccountsController{client: client}).act(t.Context(), missing); err != nil {
		outcome = "the key is tried again"
	}
	list, err := client.CoreV1().ServiceAccounts("team-a").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var there []*corev1.ServiceAccount
	for i := range list.Items {
		there = append(there, &list.Items[i])
	}
	return outcome, creations(there)
}
