package namespace

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

func TestClear(t *testing.T) {
	t.Parallel()
	two := []metav1.PartialObjectMetadata{object("a"), object("b")}
	held := heldBy("example.com/audit")
	notFound := apierrors.NewNotFound(orders.GroupResource(), "")
	notAllowed := apierrors.NewMethodNotSupported(orders.GroupResource(), "any")
	forbidden := apierrors.NewForbidden(orders.GroupResource(), "", errors.New("by a policy"))
	for _, test := range []struct {
		behaviour, situation string
		there                []metav1.PartialObjectMetadata
		asOne                bool
		refused              map[string]error
		want                 string
	}{
		{"all of a resource are deleted with one request", "two orders, and the server has deletecollection", two, true, nil,
			"delete-collection orders; left: none"},
		{"what cannot be deleted so is deleted one by one", "two orders, and the server has no deletecollection", two, false, nil,
			"delete orders; delete orders; left: none"},
		{"a server that cannot do what it says is asked for each", "deletecollection is answered with 405, whatever discovery says", two, true,
			map[string]error{"delete-collection orders": notAllowed}, "delete orders; delete orders; delete-collection orders; left: none"},
		{"a server that does not find what it says is asked for each", "deletecollection is answered with 404, whatever discovery says", two, true,
			map[string]error{"delete-collection orders": notFound}, "delete orders; delete orders; delete-collection orders; left: none"},
		{"a refusal is no reason to ask for each", "deletecollection is refused by a policy", two, true,
			map[string]error{"delete-collection orders": forbidden}, "delete-collection orders; an error"},
		{"one that is refused keeps no other from being asked", "each deletion is refused by a policy", two, false,
			map[string]error{"delete orders": forbidden}, "delete orders; delete orders; an error"},
		{"what goes by itself is no failure", "each order is gone when its turn comes, but for one with a finalizer",
			[]metav1.PartialObjectMetadata{object("a", held)}, false, map[string]error{"delete orders": apierrors.NewNotFound(orders.GroupResource(), "a")}, "delete orders; left: a"},
		{"what is left afterwards is returned", "of two orders one has a finalizer",
			[]metav1.PartialObjectMetadata{object("a"), object("b", held)}, true, nil, "delete-collection orders; left: b"},
		{"where all are going nothing is asked", "one order is going, and has a finalizer",
			[]metav1.PartialObjectMetadata{object("a", going, held)}, true, nil, "nothing; left: a"},
		{"where nothing is nothing is asked", "no orders", nil, true, nil, "nothing; left: none"},
		{"a resource that is gone has no objects", "the list is answered with 404", nil, true,
			map[string]error{"list orders": notFound}, "nothing; left: none"},
		{"a resource that cannot be listed has no objects", "the list is answered with 405, whatever discovery says", nil, true,
			map[string]error{"list orders": notAllowed}, "nothing; left: none"},
		{"of a list that fails nothing is known", "the list is refused by a policy", two, true,
			map[string]error{"list orders": forbidden}, "nothing; an error"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			s := newServer()
			s.there["orders"] = test.there
			for request, err := range test.refused {
				s.refused[request] = err
			}
			left, err := s.idle(t).clear(t.Context(), s.namespace, resource{orders, test.asOne})
			seen := s.saw() + "; left: " + names(left)
			if err != nil {
				seen = s.saw() + "; an error"
			}
			assert.Equal(t, test.want, seen, "%s", test.situation)
		})
	}
	// waited is how long ago the last object was asked, after an hour of waiting.
	waited := func(t *testing.T, there metav1.PartialObjectMetadata) string {
		s := newServer()
		s.there["orders"] = []metav1.PartialObjectMetadata{there}
		c := s.idle(t)
		c.asked.at = map[types.UID]time.Time{s.namespace.UID: time.Now().Add(-time.Hour)}
		_, err := c.clear(t.Context(), s.namespace, resource{orders, true})
		assert.NoError(t, err)
		return c.asked.since(s.namespace.UID).Round(time.Hour).String()
	}
	t.Run("the wait begins anew when something was asked", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "0s", waited(t, object("a")), "so long ago the last object was asked, says c.asked, after an order was asked")
	})
	t.Run("the wait goes on when nothing was asked", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "1h0m0s", waited(t, object("a", going, held)), "so long ago the last object was asked, says c.asked, after a look at an order that is going")
	})
}

func TestOfARefusalTheUserIsToldWhateverItsNumber(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.there["orders"] = []metav1.PartialObjectMetadata{object("a")}
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 404, Message: `admission webhook "shop.example.com" denied the request`}}
	s.refused["delete orders"] = denied
	_, err := s.idle(t).clear(t.Context(), s.namespace, resource{orders, false})
	assert.ErrorContains(t, err, denied.Error())
}

// idle returns a loop that works on the server and that nobody runs.
func (s *server) idle(t *testing.T) *NamespaceController {
	return s.controller(t, informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0))
}
