package garbagecollector

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/latecache"
)

// looking is a collector whose informers show some objects, while the API
// server has others. Their UIDs are those that it gives them.
func looking(t *testing.T, there []string, shown ...*object) *GarbageCollector {
	t.Helper()
	a := newAPI(configMaps)
	for _, name := range there {
		_, err := a.stores[configMaps].Create(thing(name))
		require.NoError(t, err)
	}
	return &GarbageCollector{metadata: a, mapper: mapperOf("ConfigMap"), graph: graphOf(shown...)}
}

// live is the first object that the API server has made, as others refer to it.
func live(name string) *object {
	return thing(name, func(o *object) { o.UID = types.UID("uid-" + name + "-2") })
}

func TestAnOwnerThatNobodyHasSeen(t *testing.T) {
	t.Parallel()
	owner := live("owner")
	boss := calling(owner, func(r *metav1.OwnerReference) { r.Name = "boss" })
	for _, c := range []struct {
		name  string
		there []string
		shown []*object
		check string
		again bool
	}{
		{"that is there is asked for again until it is shown", []string{"owner"}, []*object{thing("pod", ownedBy(owner))}, "nothing", true},
		{"that is gone has its dependents looked at", nil, []*object{thing("pod", ownedBy(owner)), thing("other", ownedBy(owner))}, "check other, pod", false},
		{"has those looked at that mean another one", []string{"owner"}, []*object{thing("pod", boss), thing("other", ownedBy(owner))}, "check pod", true},
		{"of an unknown kind is asked for again", nil, []*object{thing("pod", calling(owner, func(r *metav1.OwnerReference) { r.Kind = "Comet" }))}, "nothing", true},
		{"and cannot be in the dependent's namespace is left alone", nil, []*object{thing("pod", in(""), ownedBy(owner))}, "nothing", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gc := looking(t, c.there, c.shown...)
			check, err := gc.collect(t.Context(), here(owner.UID))
			assert.Equal(t, c.check, work{check: check}.String())
			if c.again {
				assert.ErrorIs(t, err, controller.ErrStaleCache)
			} else {
				assert.NoError(t, err)
			}
		})
	}
	t.Run("and is gone is asked for once", func(t *testing.T) {
		t.Parallel()
		gc := looking(t, nil, thing("pod", ownedBy(owner)))
		for range 3 {
			_, err := gc.collect(t.Context(), here(owner.UID))
			require.NoError(t, err)
		}
		assert.Equal(t, "get owner", gc.metadata.(*api).told())
	})
}

func TestObserve(t *testing.T) {
	t.Parallel()
	owner, waitingOwner := live("owner"), live("owner")
	deleted(foreground)(waitingOwner)
	for _, c := range []struct {
		name  string
		there []string
		shown []*object
		want  ownerState
		asks  string
	}{
		{"an owner that is shown is believed", nil, []*object{owner, thing("pod", ownedBy(owner))}, solid, ""},
		{"an owner that is shown to wait is believed", nil, []*object{waitingOwner, thing("pod", ownedBy(owner))}, waiting, ""},
		{"an owner that is not shown is asked for", []string{"owner"}, []*object{thing("pod", ownedBy(owner))}, solid, "get owner"},
		{"an owner that is not there is dangling", nil, []*object{thing("pod", ownedBy(owner))}, dangling, "get owner"},
		{"another object of its name is not the owner", []string{"first", "owner"}, []*object{thing("pod", ownedBy(owner))}, dangling, "get owner"},
		{"an owner that is shown under another name is asked for", nil, []*object{owner, thing("pod", calling(owner, func(r *metav1.OwnerReference) { r.Name = "boss" }))}, dangling, "get boss"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gc := looking(t, c.there, c.shown...)
			seen, err := gc.observe(t.Context(), here("pod"))
			require.NoError(t, err)
			require.Len(t, seen.owners, 1)
			assert.Equal(t, c.want, seen.owners[0].is)
			assert.Equal(t, c.asks, gc.metadata.(*api).told())
		})
	}
	t.Run("of one that is being deleted no owner is asked for", func(t *testing.T) {
		t.Parallel()
		gc := looking(t, nil, thing("pod", ownedBy(owner), deleted()))
		_, err := gc.observe(t.Context(), here("pod"))
		require.NoError(t, err)
		assert.Empty(t, gc.metadata.(*api).told())
	})
	t.Run("what blocks an owner and how far it is", func(t *testing.T) {
		t.Parallel()
		gc := looking(t, nil, owner, thing("pod", blocking(owner), deleted(foreground)), thing("other", ownedBy(owner)))
		seen, err := gc.observe(t.Context(), here(owner.UID))
		require.NoError(t, err)
		assert.ElementsMatch(t, []dependent{{here("pod"), true, collecting}, {here("other"), false, alive}}, seen.dependents)
	})
}

func TestAnOwnerIsKnownByItsUIDInAllVersions(t *testing.T) {
	t.Parallel()
	inVersion := func(owner *object, version string) *object {
		return thing("pod", calling(owner, func(r *metav1.OwnerReference) { r.APIVersion = version }))
	}
	former := func(owner *object) *object { return inVersion(owner, "v1alpha1") }
	unknown := calling(thing("owner"), func(r *metav1.OwnerReference) { r.Kind = "Comet" })
	for _, c := range []struct {
		name, situation string
		owner           *object
		gone            bool
		pod             *object
		want            string
	}{
		{"while it is there", "an informer shows owner", thing("owner"), false, former(thing("owner")), "keep"},
		{"while it waits", "owner is being deleted in the foreground", thing("owner", deleted(foreground)), false, former(thing("owner")), "delete (Background)"},
		{"when it has gone", "an informer has shown the end of owner", thing("owner"), true, former(thing("owner")), "delete (Background)"},
		{"when it was in no namespace", "an informer has shown the end of owner", thing("owner", in("")), true, former(thing("owner")), "delete (Background)"},
		{"but not in another group", "an informer has shown the end of owner", thing("owner"), true, inVersion(thing("owner"), "example.com/v1"), "the cache is behind"},
		{"but not of another kind", "an informer has shown the end of owner, and pod names a Comet", thing("owner"), true, thing("pod", unknown), "the cache is behind"},
		{"but not in another namespace", "an informer has shown the end of owner there", thing("owner", in("there")), true, former(thing("owner")), "the cache is behind"},
		{"but not if nobody has seen it", "nobody has seen owner", thing("other"), true, former(thing("owner")), "the cache is behind"},
	} {
		for _, late := range []bool{false, true} {
			gc := looking(t, nil, c.owner)
			steps := []func(g *graph) work{func(g *graph) work { return g.put(c.pod) }}
			if c.gone {
				steps = append(steps, func(g *graph) work { return g.remove(c.owner) })
			}
			if late {
				slices.Reverse(steps)
			}
			for _, step := range steps {
				step(gc.graph)
			}
			seen, err := gc.observe(t.Context(), here("pod"))
			got := decide(seen).String()
			if errors.Is(err, controller.ErrStaleCache) {
				got = "the cache is behind"
			}
			assert.Equal(t, c.want, got, "%s: pod names owner in a version that is served no more. Pod is seen after that: %t. %s", c.name, late, c.situation)
			assert.Empty(t, gc.metadata.(*api).told(), "nobody can be asked")
		}
	}
	t.Run("but what one group of the API does not have another may have", func(t *testing.T) {
		t.Parallel()
		elsewhere := schema.GroupVersion{Group: "example.com", Version: "v1"}
		owner := live("owner")
		gc := looking(t, []string{"owner"}, thing("pod", ownedBy(owner)),
			thing("other", calling(owner, func(r *metav1.OwnerReference) { r.APIVersion = elsewhere.String() })))
		gc.mapper.(fixedMapper).RESTMapper.(*meta.DefaultRESTMapper).Add(elsewhere.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		resource := elsewhere.WithResource("configmaps")
		gc.metadata.(*api).stores[resource] = latecache.NewStore[*object](resource.GroupResource())
		check, err := gc.collect(t.Context(), here(owner.UID))
		require.ErrorIs(t, err, controller.ErrStaleCache, "no informer shows owner yet")
		assert.Equal(t, "check other", work{check: check}.String(), "pod names a ConfigMap that is there, and other one of another group that is not")
		locked(gc, func(g *graph) work { return g.put(owner) })
		seen, err := gc.observe(t.Context(), here("other"))
		require.NoError(t, err)
		assert.Equal(t, dangling, seen.owners[0].is, "an informer shows owner, and other means one of another group")
	})
}

// The mapper is as late as any cache: it may know a version that is not served any more.
func TestAnOwnerWhoseKindIsNotServedAnyMoreIsNotTakenForGone(t *testing.T) {
	t.Parallel()
	secret := calling(live("owner"), func(r *metav1.OwnerReference) { r.Kind = "Secret" })
	gc := looking(t, nil, thing("pod", secret))
	gc.mapper = mapperOf("ConfigMap", "Secret")
	for _, k := range []key{here(live("owner").UID), here("pod")} {
		check, err := gc.collect(t.Context(), k)
		require.Error(t, err, "it is to be asked for again")
		assert.Empty(t, check, "looked at because pod names what is not there")
	}
	assert.Equal(t, "get owner; get owner", gc.metadata.(*api).told(), "and pod is not deleted")
}

func TestWhatIsInAnotherNamespaceDoesNotHoldAnOwnerUp(t *testing.T) {
	t.Parallel()
	foreign := func(owner *object) *object {
		return thing("pod", in("there"), blocking(owner), deleted("example.com/mine"))
	}
	for _, c := range []struct {
		namespace, want string
	}{{"here", "release"}, {"", "check pod"}} {
		owner := thing("owner", in(c.namespace), deleted(foreground))
		seen := graphOf(owner, foreign(owner)).look(keyOf(owner))
		assert.Equal(t, c.want, decide(seen).String(), "pod is there and blocks owner, which is in namespace %q", c.namespace)
	}
	owner := thing("owner", deleted(orphan))
	gc := looking(t, nil, owner, foreign(owner))
	require.NoError(t, gc.attemptToOrphan(t.Context(), keyOf(owner)))
	assert.Equal(t, "patch owner if it is owner in version 1", gc.metadata.(*api).told(), "pod is there and names owner, which is to be orphaned here")
}

func TestOnlyAReferenceThatMeansTheOwnerHoldsItUp(t *testing.T) {
	t.Parallel()
	owner := thing("owner", deleted(foreground))
	for _, c := range []struct {
		part   string
		change func(*metav1.OwnerReference)
		want   string
	}{
		{"the whole reference", func(*metav1.OwnerReference) {}, "check pod"},
		{"another version", func(r *metav1.OwnerReference) { r.APIVersion = "v1alpha1" }, "check pod"},
		{"another name", func(r *metav1.OwnerReference) { r.Name = "boss" }, "release"},
		{"another kind", func(r *metav1.OwnerReference) { r.Kind = "Comet" }, "release"},
		{"another group", func(r *metav1.OwnerReference) { r.APIVersion = "example.com/v1" }, "release"},
	} {
		pod := thing("pod", calling(owner, func(r *metav1.OwnerReference) { r.BlockOwnerDeletion = ptr.To(true); c.change(r) }), deleted("example.com/mine"))
		assert.Equal(t, c.want, decide(graphOf(owner, pod).look(keyOf(owner))).String(), "pod names the UID of owner, blocks it, and has %s", c.part)
	}
}

func TestOrphans(t *testing.T) {
	t.Parallel()
	a := newAPI(configMaps)
	store := a.stores[configMaps]
	made, err := store.Create(thing("owner", deleted(orphan, "example.com/mine")))
	require.NoError(t, err)
	pod, err := store.Create(thing("pod", ownedBy(thing("keeper"), made)))
	require.NoError(t, err)
	gc := &GarbageCollector{metadata: a, mapper: mapperOf("ConfigMap"), graph: graphOf(made, pod)}
	changes(labelled)(a, pod.DeepCopy()) // a conflict on the way

	require.NoError(t, gc.attemptToOrphan(t.Context(), keyOf(made)))
	left, err := store.Get("pod")
	require.NoError(t, err)
	assert.Equal(t, "keeper", owners(left), "who owns pod still")
	owner, err := store.Get("owner")
	require.NoError(t, err)
	assert.Equal(t, []string{"example.com/mine"}, owner.Finalizers)
}

// The client of metadata would join such a name into the path that it asks for.
func TestAnOwnerWhoseNameNoObjectCanHaveIsGoneAndNotAskedFor(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ".", "..", "a/b", "../../../namespaces/kube-system/configmaps/kube-root-ca.crt", "a%2fb"} {
		gc := looking(t, []string{name}, thing("pod", ownedBy(live(name))))
		check, err := gc.collect(t.Context(), here(live(name).UID))
		require.NoError(t, err, "the owner is called %q", name)
		assert.Equal(t, "check pod", work{check: check}.String(), "the owner is called %q", name)
		assert.Empty(t, gc.metadata.(*api).requests, "the owner is called %q", name)
	}
	for _, part := range []string{"", "..", "../../api/v1", "v1/../..", "a%2fb", strings.Repeat("a", 253)} {
		for _, odd := range []func(r *metav1.OwnerReference){
			func(r *metav1.OwnerReference) { r.Kind = part }, func(r *metav1.OwnerReference) { r.APIVersion = part },
		} {
			gc := looking(t, nil, thing("pod", calling(live("owner"), odd)))
			_, err := gc.observe(t.Context(), here("pod"))
			require.ErrorIs(t, err, controller.ErrStaleCache, "the kind or version of the owner is %q, which may be there some day", part)
			assert.Empty(t, gc.metadata.(*api).requests, "the kind or version of the owner is %q", part)
		}
	}
	longest := strings.Repeat("a", 253)
	gc := looking(t, []string{longest}, thing("pod", ownedBy(live(longest))))
	_, err := gc.collect(t.Context(), here(live(longest).UID))
	require.ErrorIs(t, err, controller.ErrStaleCache, "an owner with a name of 253 characters is there, and not shown yet")
}
