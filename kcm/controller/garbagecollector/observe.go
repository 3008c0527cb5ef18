package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// observed is what is decided on.
type observed struct {
	// object is nil when there is nothing to decide on.
	object     *object
	owners     []owner
	dependents []dependent
}

// isPartial tells whether not all owners were asked for, because a try asks for
// five at most.
func (seen observed) isPartial() bool {
	return phaseOf(seen.object) == alive && slices.ContainsFunc(seen.owners, func(o owner) bool { return o.is == unseen })
}

// isKept tells whether an owner keeps the object, whatever the others are.
func (seen observed) isKept() bool {
	return slices.ContainsFunc(seen.owners, func(o owner) bool { return o.is == solid })
}

// owner is an owner reference, and what has become of its owner.
type owner struct {
	metav1.OwnerReference
	is ownerState
}

type ownerState int

const (
	// unseen owners were not found out about: no informer shows them as the
	// reference says, and the API server was not asked.
	unseen ownerState = iota
	// solid owners exist and keep their dependents.
	solid
	// waiting owners exist and wait for their dependents to go.
	waiting
	// dangling is a reference to nothing.
	dangling
)

// dependent is what an owner has to know of one.
type dependent struct {
	key key
	// blocks says that the owner is to wait for it, with blockOwnerDeletion.
	blocks bool
	phase  phase
}

func stateOf(owner *object) ownerState {
	if phaseOf(owner) == collecting {
		return waiting
	}
	return solid
}

// look returns what the graph knows of an object.
func (g *graph) look(k key) (seen observed) {
	n := g.nodes[k.uid]
	if n == nil || n.object == nil || n.object.Namespace != k.namespace {
		return seen
	}
	seen.object = n.object
	for i, ref := range n.object.OwnerReferences {
		is := unseen
		if actual := g.node(ref.UID).object; actual != nil && claim(n.object, ref).means(actual) {
			is = stateOf(actual)
		} else if n.isRefuted(i) {
			is = dangling
		}
		seen.owners = append(seen.owners, owner{ref, is})
	}
	for _, d := range n.dependents {
		if !isElsewhere(n.object, d.object) {
			seen.dependents = append(seen.dependents, dependent{keyOf(d.object), blocks(d.object, n.object), phaseOf(d.object)})
		}
	}
	return seen
}

// blocks tells whether a reference that means the owner asks it to wait.
func blocks(dependent, owner *object) bool {
	return slices.ContainsFunc(dependent.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ptr.Deref(ref.BlockOwnerDeletion, false) && claim(dependent, ref).means(owner)
	})
}

// asks is for how many owners the API server is asked in one try. An object may
// name thousands, and others wait for the worker and for the requests.
const asks = 5

// errMore says that there are more owners than could be asked for in one try, and
// that something was found out that is remembered.
var errMore = errors.New("there are more owners to ask for")

// observe returns what the graph knows of an object, and what the API server says
// of those owners that the graph does not know, or of some of them.
func (gc *GarbageCollector) observe(ctx context.Context, k key) (observed, error) {
	seen := locked(gc, func(g *graph) observed { return g.look(k) })
	if phaseOf(seen.object) != alive {
		return seen, nil // its owners make no difference any more
	}
	var unknown []*owner
	for i := range seen.owners {
		if o := &seen.owners[i]; o.is == unseen {
			unknown = append(unknown, o)
		}
	}
	first := 0
	if len(unknown) > asks {
		first = rand.IntN(len(unknown)) // each of them is asked for at some time
	}
	answers := map[reference]ownerState{}
	for _, o := range slices.Concat(unknown[first:], unknown[:first]) {
		r := claim(seen.object, o.OwnerReference)
		if _, asked := answers[r]; !asked {
			if len(answers) == asks {
				break
			}
			is, err := gc.lookUp(ctx, r)
			if err != nil {
				return observed{}, err
			}
			answers[r] = is
		}
		o.is = answers[r]
	}
	if seen.isPartial() && slices.Contains(slices.Collect(maps.Values(answers)), dangling) {
		return observed{}, errMore
	}
	return seen, nil
}

// naming returns those objects of a namespace that name an owner.
func (g *graph) naming(k key) (dependents []*node) {
	if n := g.nodes[k.uid]; n != nil {
		for _, d := range n.dependents {
			if d.object.Namespace == k.namespace {
				dependents = append(dependents, d)
			}
		}
	}
	return dependents
}

// claims returns what the objects of a namespace say of an owner, but for what is
// known to be wrong. It gives up when they say more than a try can ask for.
func (g *graph) claims(k key) (claims []reference) {
	for _, d := range g.naming(k) {
		for _, i := range d.refsTo(k.uid) {
			if c := claim(d.object, d.object.OwnerReferences[i]); !d.isRefuted(i) && !slices.Contains(claims, c) {
				claims = append(claims, c)
			}
			if len(claims) > asks {
				return claims
			}
		}
	}
	return claims
}

// misled returns those objects of a namespace of which it is known that they name
// an owner that is not there.
func (g *graph) misled(k key) (dependents []key) {
	for _, d := range g.naming(k) {
		if slices.ContainsFunc(d.refsTo(k.uid), d.isRefuted) {
			dependents = append(dependents, keyOf(d.object))
		}
	}
	return dependents
}

// errNoSuchOwner says that an object in no namespace refers to an owner that
// can only be in one. Such a reference leads nowhere, and the object is kept.
var errNoSuchOwner = errors.New("cluster-scoped objects cannot refer to namespaced owners")

// lookUp asks the API server for an owner. An owner whose kind the API server does
// not know, or does not serve any more, may be there: unless it is known to be gone,
// it is asked for again later. One whose name no object can have is not asked for.
func (gc *GarbageCollector) lookUp(ctx context.Context, r reference) (ownerState, error) {
	mapping, err := gc.mapping(r.apiVersion, r.kind)
	switch {
	case err != nil && locked(gc, func(g *graph) bool { return g.knowsGone(r) }):
		return dangling, nil
	case err != nil:
		return unseen, err
	case mapping.Scope.Name() == meta.RESTScopeNameRoot:
		r = r.clusterScoped()
	case r.namespace == "":
		return unseen, fmt.Errorf("%s: %w", r, errNoSuchOwner)
	}
	if controller.CanBeName(r.name) {
		live, err := gc.metadata.Resource(mapping.Resource).Namespace(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
		switch {
		case err == nil && live.UID == r.uid:
			return stateOf(live), nil
		case err != nil && !controller.IsGone(err):
			return unseen, fmt.Errorf("look for owner %s: %w", r, err)
		}
	}
	gc.mu.Lock()
	defer gc.mu.Unlock()
	gc.graph.refute(r)
	return dangling, nil
}

// mapping returns the resource of a kind. When the kind is not known, the error
// wraps ErrStaleCache: the mapper is as late as any cache, and may know it the
// next time.
func (gc *GarbageCollector) mapping(apiVersion, kind string) (*meta.RESTMapping, error) {
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	mapping, err := gc.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("%w: %v", controller.ErrStaleCache, err)
	}
	return mapping, err
}
