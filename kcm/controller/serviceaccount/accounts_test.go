package serviceaccount

import (
	"errors"
	"slices"
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

func namespaceIn(phase corev1.NamespacePhase) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "ns"},
		Status:     corev1.NamespaceStatus{Phase: phase},
	}
}

func accountsNamed(names ...string) []corev1.ServiceAccount {
	var accounts []corev1.ServiceAccount
	for _, name := range names {
		accounts = append(accounts, corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return accounts
}

func pointers(accounts []corev1.ServiceAccount) []*corev1.ServiceAccount {
	var p []*corev1.ServiceAccount
	for i := range accounts {
		p = append(p, &accounts[i])
	}
	return p
}

func namesOf(accounts []*corev1.ServiceAccount) []string {
	var names []string
	for _, account := range accounts {
		names = append(names, account.Name)
	}
	return names
}

func TestANamespaceIsGivenTheAccountsThatItLacks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		namespace *corev1.Namespace
		has       []string
		wants     []string
		creates   []string
	}{
		"an active namespace without accounts gets the default one": {
			namespace: namespaceIn(corev1.NamespaceActive), wants: []string{"default"}, creates: []string{"default"},
		},
		"an account that is there is not created": {
			namespace: namespaceIn(corev1.NamespaceActive), has: []string{"default"}, wants: []string{"default"},
		},
		"accounts of other names do not count": {
			namespace: namespaceIn(corev1.NamespaceActive), has: []string{"builder"}, wants: []string{"default"}, creates: []string{"default"},
		},
		"only what is missing of several is created": {
			namespace: namespaceIn(corev1.NamespaceActive), has: []string{"default"}, wants: []string{"default", "builder"}, creates: []string{"builder"},
		},
		"a terminating namespace is left alone": {
			namespace: namespaceIn(corev1.NamespaceTerminating), wants: []string{"default"},
		},
		"a namespace that is gone is left alone": {
			wants: []string{"default"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := observedNamespace{namespace: test.namespace, accounts: pointers(accountsNamed(test.has...))}
			missing := decideAccounts(seen, accountsNamed(test.wants...))
			assert.Equal(t, test.creates, namesOf(missing))
			for _, account := range missing {
				assert.Equal(t, "ns", account.Namespace)
			}
		})
	}
}

func TestWhatIsCreatedTogetherWithWhatIsThereIsWhatIsWanted(t *testing.T) {
	t.Parallel()
	names := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), rapid.ID)
	rapid.Check(t, func(t *rapid.T) {
		has, wants := names.Draw(t, "has"), names.Draw(t, "wants")
		seen := observedNamespace{namespace: namespaceIn(corev1.NamespaceActive), accounts: pointers(accountsNamed(has...))}
		created := namesOf(decideAccounts(seen, accountsNamed(wants...)))
		for _, name := range wants {
			assert.NotEqual(t, slices.Contains(has, name), slices.Contains(created, name), "%s", name)
		}
		assert.Subset(t, wants, created)
	})
}

func TestTheTemplateOfAnAccountIsNotChanged(t *testing.T) {
	t.Parallel()
	wanted := accountsNamed("default")
	created := decideAccounts(observedNamespace{namespace: namespaceIn(corev1.NamespaceActive)}, wanted)
	require.Len(t, created, 1)
	assert.Empty(t, wanted[0].Namespace)
}

func TestRefusedCreationsAreErrorsUnlessThereIsNothingToDo(t *testing.T) {
	t.Parallel()
	accounts := corev1.Resource("serviceaccounts")
	terminating := apierrors.NewForbidden(accounts, "default", errors.New("namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	for name, test := range map[string]struct {
		refusal error
		fails   bool
	}{
		"the account has come in the meantime": {refusal: apierrors.NewAlreadyExists(accounts, "default")},
		"the namespace is being deleted":       {refusal: terminating},
		"the server is in trouble":             {refusal: apierrors.NewInternalError(errors.New("boom")), fails: true},
		"it is not allowed":                    {refusal: apierrors.NewForbidden(accounts, "default", errors.New("no")), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset()
			client.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
				created := action.(clienttesting.CreateAction).GetObject().(*corev1.ServiceAccount)
				return created.Name == "first", nil, test.refusal
			})
			wanted := accountsNamed("first", "second")
			c := &ServiceAccountsController{client: client}
			err := c.act(t.Context(), decideAccounts(observedNamespace{namespace: namespaceIn(corev1.NamespaceActive)}, wanted))
			if test.fails {
				require.ErrorIs(t, err, test.refusal)
				assert.ErrorContains(t, err, "create service account ns/first")
			} else {
				require.NoError(t, err)
			}
			_, err = client.CoreV1().ServiceAccounts("ns").Get(t.Context(), "second", metav1.GetOptions{})
			assert.NoError(t, err, "the other account is created all the same")
		})
	}
}
