package garbagecollector

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/latecache"
)

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

var (
	resources = []schema.GroupVersionResource{configMaps, secrets}
	kinds     = map[schema.GroupVersionResource]string{configMaps: "ConfigMap", secrets: "Secret"}
)

// model is an API server with objects of two kinds that own each other in any
// way, and the collector. What its informers show, and when it does what it has to do, is
// left to chance.
type model struct {
	api    *api
	caches map[schema.GroupVersionResource]*latecache.Informer[*object]
	gc     *GarbageCollector
	check  sets.Set[key]
	orphan sets.Set[key]
	trace  []string
	// wrong is what the collector has done and must not do.
	wrong string
}

func newModel() *model {
	m := &model{
		api:    newAPI(configMaps, secrets),
		caches: map[schema.GroupVersionResource]*latecache.Informer[*object]{},
		gc:     &GarbageCollector{mapper: mapperOf("ConfigMap", "Secret"), graph: newGraph()},
		check:  sets.New[key](), orphan: sets.New[key](),
	}
	m.gc.metadata = m.api
	for _, resource := range resources {
		m.caches[resource] = latecache.NewInformer(m.api.stores[resource])
		controller.Handle(m.caches[resource], controller.Handlers[*object]{
			Add:    func(o *object) { m.queue(m.gc.graph.put(o)) },
			Update: func(_, o *object) { m.queue(m.gc.graph.put(o)) },
			Delete: func(o *object) { m.queue(m.gc.graph.remove(o)) },
		})
	}
	return m
}

func (m *model) queue(do work) {
	m.check.Insert(do.check...)
	m.orphan.Insert(do.orphan...)
}

func sorted(keys sets.Set[key]) []key {
	return slices.SortedFunc(maps.Keys(keys), func(a, b key) int { return cmp.Compare(a.uid, b.uid) })
}

func (m *model) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

// everything returns all objects on the API server.
func (m *model) everything() []*object {
	return slices.Concat(m.api.stores[configMaps].List(), m.api.stores[secrets].List())
}

func (m *model) resource(obj *object) schema.GroupVersionResource {
	if obj.Kind == "Secret" {
		return secrets
	}
	return configMaps
}

// owner returns the object that a reference leads to, or nil.
func (m *model) owner(ref metav1.OwnerReference) *object {
	for _, obj := range m.everything() {
		if refTo(obj) == (metav1.OwnerReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: ref.UID}) {
			return obj
		}
	}
	return nil
}

// someRefs refers to objects that are there, and now and then to one that never was or
// under a name that is wrong.
func (m *model) someRefs(t *rapid.T) []metav1.OwnerReference {
	var refs []metav1.OwnerReference
	all := m.everything()
	for range rapid.SampledFrom([]int{0, 1, 2, 9}).Draw(t, "owners") {
		ref := refTo(thing("nobody"))
		if len(all) > 0 && rapid.IntRange(0, 9).Draw(t, "exists") > 0 {
			ref = refTo(all[rapid.IntRange(0, len(all)-1).Draw(t, "owner")])
		}
		if rapid.IntRange(0, 9).Draw(t, "lies") == 0 {
			ref.Name = "a-lie"
		}
		if rapid.Bool().Draw(t, "blocks") {
			ref.BlockOwnerDeletion = ptr.To(true)
		}
		if !slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == ref.UID }) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// create creates an object, sometimes under a name that another one had.
func (m *model) create(t *rapid.T) {
	resource := rapid.SampledFrom(resources).Draw(t, "resource")
	obj := thing(fmt.Sprintf("%.1s%d", resource.Resource, rapid.IntRange(0, 3).Draw(t, "name")))
	obj.Kind, obj.OwnerReferences = kinds[resource], m.someRefs(t)
	if created, err := m.api.stores[resource].Create(obj); err == nil {
		m.note("a user creates %s, owned by %s", created.UID, owners(created))
	}
}

func owners(obj *object) string {
	var uids []types.UID
	for _, ref := range obj.OwnerReferences {
		uids = append(uids, ref.UID)
	}
	if len(uids) == 0 {
		return "nobody"
	}
	return list(uids)
}

func (m *model) some(t *rapid.T) *object {
	all := m.everything()
	if len(all) == 0 {
		return nil
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(t, "object")]
}

func (m *model) adopt(t *rapid.T) {
	if obj := m.some(t); obj != nil {
		obj.OwnerReferences = m.someRefs(t)
		if _, err := m.api.stores[m.resource(obj)].Update(obj); err == nil {
			m.note("a user gives %s to %s", obj.UID, owners(obj))
		}
	}
}

func (m *model) label(t *rapid.T) {
	if obj := m.some(t); obj != nil {
		labelled(obj)
		if _, err := m.api.stores[m.resource(obj)].Update(obj); err == nil {
			m.note("a user labels %s", obj.UID)
		}
	}
}

func (m *model) remove(t *rapid.T, policies ...metav1.DeletionPropagation) {
	obj := m.some(t)
	if obj == nil || obj.DeletionTimestamp != nil {
		return
	}
	policy := rapid.SampledFrom(policies).Draw(t, "policy")
	m.note("a user deletes %s (%s)", obj.UID, policy)
	uid := obj.UID
	if err := m.api.Resource(m.resource(obj)).Delete(context.Background(), obj.Name, metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &uid},
	}); err != nil {
		panic(err)
	}
}

// work does one thing of what is to be done, in any order.
func (m *model) work(t *rapid.T) {
	m.api.deleting = m.judge
	defer func() { m.api.deleting = nil }()
	if keys := sorted(m.orphan); len(keys) > 0 && rapid.Bool().Draw(t, "orphan") {
		k := rapid.SampledFrom(keys).Draw(t, "key")
		m.orphan.Delete(k)
		m.note("the collector frees the dependents of %s", k.uid)
		if m.gc.attemptToOrphan(t.Context(), k) != nil {
			m.orphan.Insert(k)
		}
	} else if keys := sorted(m.check); len(keys) > 0 {
		k := rapid.SampledFrom(keys).Draw(t, "key")
		m.check.Delete(k)
		m.note("the collector looks at %s", k.uid)
		check, err := m.gc.collect(t.Context(), k)
		m.check.Insert(check...)
		if err != nil {
			m.check.Insert(k)
		}
	}
	if m.wrong != "" {
		t.Fatalf("%s\n%s", m.wrong, strings.Join(m.trace, "\n"))
	}
}

// judge sees each deletion by the collector at the moment when it is done: none
// of the owners may be there, but for those that wait for it to go.
func (m *model) judge(obj *object, _ metav1.DeletionPropagation) {
	if len(obj.OwnerReferences) == 0 {
		m.wrong = fmt.Sprintf("the collector deletes %s, which has no owners", obj.UID)
	}
	for _, ref := range obj.OwnerReferences {
		if owner := m.owner(ref); owner != nil && phaseOf(owner) != collecting {
			m.wrong = fmt.Sprintf("the collector deletes %s, whose owner %s is there", obj.UID, owner.UID)
		}
	}
}

// informers go on a bit, each by itself.
func (m *model) showSome(t *rapid.T) {
	resource := rapid.SampledFrom(resources).Draw(t, "informer")
	cache := m.caches[resource]
	if rapid.IntRange(0, 5).Draw(t, "relist") == 0 {
		m.note("the watch of %s was broken", resource.Resource)
		cache.Relist()
		return
	}
	cache.Show(rapid.IntRange(0, 3).Draw(t, "show"))
	cache.Tell(rapid.IntRange(0, 3).Draw(t, "tell"))
}

// settle lets the informers catch up and the collector do all that there is to
// do, until there is no more.
func (m *model) settle(t *rapid.T) {
	m.note("everything is caught up with")
	for range 500 {
		for _, resource := range resources {
			m.caches[resource].CatchUp()
		}
		if len(m.check)+len(m.orphan) == 0 {
			return
		}
		m.work(t)
	}
	t.Fatalf("the collector does not come to an end; it still looks at %s\n%s", list(uidsOf(sorted(m.check))), strings.Join(m.trace, "\n"))
}

// leftOver returns what should not be there any more when all is settled.
func (m *model) leftOver() string {
	var left []string
	for _, obj := range m.everything() {
		kept := len(obj.OwnerReferences) == 0
		dangling := 0
		for _, ref := range obj.OwnerReferences {
			switch owner := m.owner(ref); {
			case owner == nil:
				dangling++
			case phaseOf(owner) != collecting:
				kept = true
			}
		}
		switch {
		case phaseOf(obj) == orphaning:
			left = append(left, fmt.Sprintf("%s is still to be orphaned", obj.UID))
		case phaseOf(obj) == collecting && !m.blocked(obj):
			left = append(left, fmt.Sprintf("%s is still to be deleted, and nothing blocks it", obj.UID))
		case phaseOf(obj) == alive && !kept:
			left = append(left, fmt.Sprintf("%s is there, and its owners are gone or wait for it to go", obj.UID))
		case phaseOf(obj) == alive && dangling > 0:
			left = append(left, fmt.Sprintf("%s still names an owner that is gone", obj.UID))
		}
	}
	return strings.Join(left, "\n")
}

func (m *model) blocked(owner *object) bool {
	return slices.ContainsFunc(m.everything(), func(o *object) bool { return !isElsewhere(owner, o) && blocks(o, owner) })
}

func (m *model) run(t *rapid.T, policies ...metav1.DeletionPropagation) {
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		switch rapid.SampledFrom([]string{"create", "create", "delete", "adopt", "label", "show", "show", "work", "work"}).Draw(t, "step") {
		case "create":
			m.create(t)
		case "delete":
			m.remove(t, policies...)
		case "adopt":
			m.adopt(t)
		case "label":
			m.label(t)
		case "show":
			m.showSome(t)
		case "work":
			m.work(t)
		}
	}
}

// rebuilt is the graph of what is there, built in one go.
func (m *model) rebuilt() *graph {
	return graphOf(m.everything()...)
}

func TestModel(t *testing.T) {
	t.Parallel()
	all := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
	t.Run("whatever the informers miss the graph shows what is there when they have caught up", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			m := newModel()
			m.run(t, all...)
			for _, resource := range resources {
				m.caches[resource].CatchUp()
			}
			assert.Equal(t, m.rebuilt().drawn(), m.gc.graph.drawn(), strings.Join(m.trace, "\n"))
		})
	})
	t.Run("however late the informers are nothing is deleted that has an owner", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			m := newModel()
			m.run(t, all...)
			m.settle(t)
		})
	})
	t.Run("in the end nothing is left whose owners are gone", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			m := newModel()
			m.run(t, all...)
			m.settle(t)
			assert.Empty(t, m.leftOver(), strings.Join(m.trace, "\n"))
		})
	})
	t.Run("when the informers are not late those that were orphaned stay", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			m := newModel()
			for range rapid.IntRange(1, 20).Draw(t, "objects") {
				m.create(t)
			}
			m.settle(t)
			before := m.names()
			m.remove(t, metav1.DeletePropagationOrphan)
			m.settle(t)
			assert.LessOrEqual(t, len(before)-len(m.names()), 1, "one was deleted, and its dependents were to stay\n%s", strings.Join(m.trace, "\n"))
		})
	})
}

func (m *model) names() []types.UID {
	names := map[types.UID]bool{}
	for _, obj := range m.everything() {
		names[obj.UID] = true
	}
	return slices.Sorted(maps.Keys(names))
}
