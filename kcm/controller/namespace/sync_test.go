package namespace

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

func init() {
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

// server plays the API server: it has objects, and notes what is asked of it.
type server struct {
	mu        sync.Mutex
	there     map[string][]metav1.PartialObjectMetadata
	asked     []string
	refused   map[string]error // by verb and resource
	namespace *corev1.Namespace
	discovery error
	// ended is whether all pods have.
	ended bool
	// unnamed are groups that discovery leaves out without an error.
	unnamed []string
}

func newServer() *server {
	return &server{
		there:   map[string][]metav1.PartialObjectMetadata{},
		refused: map[string]error{},
		namespace: &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "1", DeletionTimestamp: new(metav1.NewTime(time.Unix(1000, 0)))},
			Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}},
			Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating},
		},
	}
}

func (s *server) discover() ([]*metav1.APIResourceList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := metav1.Verbs{"get", "list", "delete", "deletecollection"}
	return slices.DeleteFunc([]*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "configmaps", Verbs: all}, {Name: "pods", Verbs: all}, {Name: "events", Verbs: all},
			{Name: "bindings", Verbs: metav1.Verbs{"create"}}}},
		{GroupVersion: "events.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "events", Verbs: all}}},
		{GroupVersion: "shop.example.com/v1", APIResources: []metav1.APIResource{{Name: "orders", Verbs: metav1.Verbs{"list", "delete"}}}},
	}, func(list *metav1.APIResourceList) bool { return slices.Contains(s.unnamed, list.GroupVersion) }), s.discovery
}

// react answers one request. What is deleted is gone, unless it has a finalizer. An object
// whose grace period runs stays as it is.
func (s *server) react(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := action.GetResource().Resource
	request := action.GetVerb() + " " + resource
	if action.GetVerb() != "list" {
		s.asked = append(s.asked, request+otherwise(action))
	}
	if err := s.refused[request]; err != nil {
		return true, nil, err
	}
	keep := func(o metav1.PartialObjectMetadata) bool { return false }
	switch action := action.(type) {
	case clienttesting.ListActionImpl:
		if s.ended && !action.ListRestrictions.Fields.Empty() {
			return true, &metav1.List{}, nil
		}
		return true, &metav1.List{Items: raw(s.there[resource])}, nil
	case clienttesting.DeleteActionImpl:
		keep = func(o metav1.PartialObjectMetadata) bool { return o.Name != action.Name }
	}
	var left []metav1.PartialObjectMetadata
	for _, o := range s.there[resource] {
		if grace := o.DeletionGracePeriodSeconds; keep(o) || grace != nil && *grace > 0 {
			left = append(left, o)
		} else if len(o.Finalizers) > 0 {
			going(&o)
			left = append(left, o)
		}
	}
	s.there[resource] = left
	return true, nil, nil
}

// otherwise says how an object is deleted, if not in the background.
func otherwise(action clienttesting.Action) string {
	deletion, ok := action.(clienttesting.DeleteActionImpl)
	if policy := deletion.DeleteOptions.PropagationPolicy; ok && (policy == nil || *policy != metav1.DeletePropagationBackground) {
		return ", not in the background"
	}
	return ""
}

func raw(objects []metav1.PartialObjectMetadata) []runtime.RawExtension {
	var items []runtime.RawExtension
	for _, o := range objects {
		o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Any"}
		items = append(items, runtime.RawExtension{Object: &o})
	}
	return items
}

// controller returns a loop that works on the server, and watches namespaces with
// the factory.
func (s *server) controller(t *testing.T, factory informers.SharedInformerFactory) *NamespaceController {
	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	metadata := metadatafake.NewSimpleMetadataClient(scheme)
	metadata.PrependReactor("*", "*", s.react)
	client := fake.NewSimpleClientset()
	client.PrependReactor("*", "namespaces", s.reactToNamespaces)
	return NewNamespaceController(t.Context(), client, metadata, s.discover,
		factory.Core().V1().Namespaces(), time.Minute, corev1.FinalizerKubernetes)
}

// run has the loop work on the server until just after it may delete everything.
func (s *server) run(t *testing.T) {
	c := s.idle(t)
	c.synced = func() bool { return true }
	ctx, stop := context.WithCancel(t.Context())
	c.changed(nil, s.namespace)
	c.loop.Add("shop")
	done := make(chan struct{})
	go func() { c.Run(ctx, 1); close(done) }()
	time.Sleep(lateCreations + 4*time.Millisecond) // before a failure is tried again
	stop()
	<-done
}

func (s *server) reactToNamespaces(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if update, ok := action.(interface{ GetObject() runtime.Object }); ok {
		what := "update " + action.GetSubresource()
		s.asked = append(s.asked, what)
		if err := s.refused[what]; err != nil {
			return true, nil, err
		}
		s.namespace = update.GetObject().(*corev1.Namespace)
	}
	return true, s.namespace.DeepCopy(), s.refused["get namespaces"]
}

func (s *server) saw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.asked)
	if s.asked == nil {
		return "nothing"
	}
	return strings.Join(s.asked, "; ")
}

func TestSync(t *testing.T) {
	t.Parallel()
	gone := apierrors.NewNotFound(orders.GroupResource(), "1")
	for _, test := range []struct {
		behaviour string
		given     func(*server)
		want      string
	}{
		{"an empty namespace is let go", func(*server) {}, "update finalize; update status"},
		{"all of a resource are deleted with one request", func(s *server) {
			s.there["configmaps"] = []metav1.PartialObjectMetadata{object("a"), object("b")}
		}, "delete-collection configmaps; update finalize; update status"},
		{"what cannot be deleted so is deleted one by one", func(s *server) {
			s.there["orders"] = []metav1.PartialObjectMetadata{object("1"), object("2")}
		}, "delete orders; delete orders; update finalize; update status"},
		{"a server that cannot do what it says is asked for each", func(s *server) {
			s.there["configmaps"] = []metav1.PartialObjectMetadata{object("a")}
			s.refused["delete-collection configmaps"] = apierrors.NewMethodNotSupported(configMaps.GroupResource(), "deletecollection")
		}, "delete configmaps; delete-collection configmaps; update finalize; update status"},
		{"a server that does not find what it says is asked for each", func(s *server) {
			s.there["configmaps"] = []metav1.PartialObjectMetadata{object("a")}
			s.refused["delete-collection configmaps"] = apierrors.NewNotFound(configMaps.GroupResource(), "")
		}, "delete configmaps; delete-collection configmaps; update finalize; update status"},
		{"while a pod is left nothing else is deleted", func(s *server) {
			s.there["pods"] = []metav1.PartialObjectMetadata{object("web", heldBy("example.com/audit"))}
			s.there["configmaps"] = []metav1.PartialObjectMetadata{object("a")}
		}, "delete-collection pods; update status"},
		{"a pod that is still stopping is not asked at each look", func(s *server) {
			s.there["pods"] = []metav1.PartialObjectMetadata{object("web", graceful(30), heldBy("foregroundDeletion"))}
		}, "update status"},
		{"for a pod that has ended nothing else waits", func(s *server) {
			s.there["pods"] = []metav1.PartialObjectMetadata{object("web", heldBy("batch.kubernetes.io/job-tracking"))}
			s.there["configmaps"] = []metav1.PartialObjectMetadata{object("a")}
			s.ended = true
		}, "delete-collection configmaps; delete-collection pods; update status"},
		{"while pods cannot be listed nothing else is deleted", func(s *server) {
			s.refused["list pods"] = errors.New("not now")
			s.there["configmaps"] = []metav1.PartialObjectMetadata{object("a")}
		}, "update status"},
		{"what two groups of the API show is asked to go once", func(s *server) {
			s.there["events"] = []metav1.PartialObjectMetadata{object("a")}
		}, "delete-collection events; update finalize; update status"},
		{"a resource that is gone has no objects", func(s *server) { s.refused["list orders"] = gone }, "update finalize; update status"},
		{"a resource that cannot be listed has no objects", func(s *server) {
			s.refused["list orders"] = apierrors.NewMethodNotSupported(orders.GroupResource(), "list")
		}, "update finalize; update status"},
		{"what goes by itself is no failure", func(s *server) {
			s.there["orders"] = []metav1.PartialObjectMetadata{object("1", heldBy("example.com/audit"))}
			s.refused["delete orders"] = gone
		}, "delete orders; update status"},
		{"without all groups the rest is deleted and the namespace stays", func(s *server) {
			s.discovery = errors.New("no answer from metrics")
			s.there["configmaps"] = []metav1.PartialObjectMetadata{object("a")}
		}, "delete-collection configmaps; update status"},
		{"where discovery names nothing the namespace stays", func(s *server) {
			s.unnamed = []string{"v1", "events.k8s.io/v1", "shop.example.com/v1"}
		}, "update status"},
		{"where discovery lacks the core group the namespace stays", func(s *server) { s.unnamed = []string{"v1"} }, "update status"},
		{"a namespace that is not being deleted is left alone", func(s *server) { s.namespace.DeletionTimestamp = nil }, "nothing"},
		{"a namespace that is let go already is left alone", func(s *server) { s.namespace.Spec.Finalizers = nil }, "nothing"},
		{"a namespace that is gone is no failure", func(s *server) {
			s.refused["get namespaces"] = apierrors.NewNotFound(corev1.Resource("namespaces"), "shop")
		}, "nothing"},
		{"a namespace that has changed meanwhile is looked at anew", func(s *server) {
			s.refused["update status"] = apierrors.NewConflict(corev1.Resource("namespaces"), "shop", nil)
		}, "update status"},
		{"an empty namespace is let go also if its status is refused", func(s *server) {
			s.refused["update status"] = apierrors.NewForbidden(corev1.Resource("namespaces"), "shop", errors.New("by a policy"))
		}, "update finalize; update status"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				test.given(s)
				s.run(t)
				assert.Equal(t, test.want, s.saw())
			})
		})
	}
	for _, request := range []string{"update status", "update finalize"} {
		for answer, test := range map[string]struct {
			err  error
			done bool
		}{
			"there is no namespace of that name":       {apierrors.NewNotFound(corev1.Resource("namespaces"), "shop"), true},
			"another namespace has the name":           {apierrors.NewConflict(corev1.Resource("namespaces"), "shop", errors.New("Precondition failed: UID in precondition: 1, UID in object meta: 2")), true},
			"it has changed":                           {apierrors.NewConflict(corev1.Resource("namespaces"), "shop", errors.New("the object has been modified")), false},
			"a policy does not want it":                {apierrors.NewForbidden(corev1.Resource("namespaces"), "shop", errors.New("by a policy")), false},
			"it is invalid":                            {apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind(), "shop", nil), false},
			"a webhook is away":                        {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
			"something that is no API server answered": {apierrors.NewGenericServerResponse(404, "put", corev1.Resource("namespaces"), "shop", "404 page not found", 0, true), false},
		} {
			t.Run(request+" is tried again unless the namespace is gone: "+answer, func(t *testing.T) {
				t.Parallel()
				s := newServer()
				s.refused[request] = test.err
				c := s.idle(t)
				c.noticed.at = map[types.UID]time.Time{s.namespace.UID: time.Now().Add(-time.Hour)}
				err := c.sync(t.Context(), "shop")
				assert.Equal(t, test.done, err == nil, "%v", err)
			})
		}
	}
	t.Run("the finalizers of others stay", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			s.namespace.Spec.Finalizers = []corev1.FinalizerName{"kubernetes", "example.com/archive"}
			s.run(t)
			assert.Equal(t, []corev1.FinalizerName{"example.com/archive"}, s.namespace.Spec.Finalizers)
		})
	})
	forgets := func(t *testing.T, given func(*server)) (story string, isNamed bool) {
		s := newServer()
		s.there["orders"] = []metav1.PartialObjectMetadata{object("1", heldBy("example.com/audit"))}
		c := s.idle(t)
		c.noticed.at = map[types.UID]time.Time{s.namespace.UID: time.Now().Add(-time.Hour)}
		require.NoError(t, c.sync(t.Context(), "shop"))
		s.unnamed = []string{"shop.example.com/v1"}
		given(s)
		for range 2 {
			require.NoError(t, c.sync(t.Context(), "shop"))
		}
		_, isNamed = c.named.Load(orders.GroupResource())
		return s.saw(), isNamed
	}
	t.Run("what discovery has forgotten holds the namespace while it is there", func(t *testing.T) {
		t.Parallel()
		story, isNamed := forgets(t, func(*server) {})
		assert.Equal(t, "delete orders; update status", story, "an order has a finalizer, and discovery names no orders any more")
		assert.True(t, isNamed, "orders are asked for again")
	})
	t.Run("what the API server does not have any more is not asked for again", func(t *testing.T) {
		t.Parallel()
		story, isNamed := forgets(t, func(s *server) {
			s.refused["list orders"] = apierrors.NewGenericServerResponse(404, "list", orders.GroupResource(), "", "404 page not found", 0, true)
		})
		assert.Equal(t, "delete orders; update finalize; update status; update status", story, "the definition of orders is gone, and with it an order that had a finalizer")
		assert.False(t, isNamed, "orders are asked for again")
	})
	t.Run("after a conflict the finalizer is there", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			s.refused["update finalize"] = apierrors.NewConflict(corev1.Resource("namespaces"), "shop", nil)
			s.run(t)
			assert.Equal(t, "update finalize; update status", s.saw())
			assert.Equal(t, []corev1.FinalizerName{"kubernetes"}, s.namespace.Spec.Finalizers)
		})
	})
}

// While the watch was away the loop has let go of one namespace, and somebody has
// created and deleted another of its name. The informer tells of one change.
func TestANamespaceThatWasReplacedUnseenIsClearedAndTheFormerIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		first := s.namespace.DeepCopy()
		source := fake.NewClientset(first)
		factory := informers.NewSharedInformerFactory(source, 0)
		c := s.controller(t, factory)
		ctx, stop := context.WithCancel(t.Context())
		factory.Start(ctx.Done())
		done := make(chan struct{})
		go func() { c.Run(ctx, 1); close(done) }()
		time.Sleep(lateCreations + time.Second)
		require.Equal(t, "update finalize; update status", s.saw())

		second := first.DeepCopy()
		second.UID = "2"
		s.mu.Lock()
		s.namespace = second
		s.mu.Unlock()
		require.NoError(t, source.Tracker().Update(corev1.SchemeGroupVersion.WithResource("namespaces"), second, ""))
		time.Sleep(lateCreations + time.Second)
		stop()
		factory.Shutdown()
		<-done
		assert.Equal(t, "update finalize; update finalize; update status; update status", s.saw())
		assert.Equal(t, []types.UID{"2"}, slices.Collect(maps.Keys(c.noticed.at)), "when a deletion was noticed")
		assert.Equal(t, []types.UID{"2"}, slices.Collect(maps.Keys(c.asked.at)), "when the last object was asked")
	})
}
