package garbagecollector

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// observed is what is decided on.
type observed struct {
	// object is nil when there is nothing to decide on.
	object     *object
	owners     []owner
	dependents []dependent
}

// owner is an owner reference, and what has become of its owner.
type owner struct {
	metav1.OwnerReference
	is ownerState
}

type ownerState int

const (
	// unseen owners are shown by no informer, or not as the reference says.
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
	for _, ref := range n.object.OwnerReferences {
		is := unseen
		if actual := g.node(ref.UID).object; actual != nil && claim(n.object, ref).means(actual) {
			is = stateOf(actual)
		}
		seen.owners = append(seen.owners, owner{ref, is})
	}
	for _, d := range n.dependents {
		seen.dependents = append(seen.dependents, dependent{keyOf(d.object), blocks(d.object, n.uid), phaseOf(d.object)})
	}
	return seen
}

// blocks tells whether the dependent's reference to the owner asks it to wait.
func blocks(dependent *object, owner types.UID) bool {
	for _, ref := range dependent.OwnerReferences {
		if ref.UID == owner && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion {
			return true
		}
	}
	return false
}

// claims returns what the objects of a namespace say of an owner that no informer
// shows, and who says it.
func (g *graph) claims(k key) map[reference][]key {
	n := g.nodes[k.uid]
	if n == nil || n.object != nil {
		return nil
	}
	claims := map[reference][]key{}
	for _, d := range n.dependents {
		for _, ref := range d.object.OwnerReferences {
			if c := claim(d.object, ref); c.namespace == k.namespace && c.uid == k.uid {
				claims[c] = append(claims[c], keyOf(d.object))
			}
		}
	}
	return claims
}

// observe returns what the graph knows of an object, and what the API server
// says of those owners that the graph does not know.
func (gc *GarbageCollector) observe(ctx context.Context, k key) (observed, error) {
	gc.mu.Lock()
	seen := gc.graph.look(k)
	gc.mu.Unlock()
	if phaseOf(seen.object) != alive {
		return seen, nil // its owners make no difference any more
	}
	for i, owner := range seen.owners {
		if owner.is != unseen {
			continue
		}
		is, err := gc.lookUp(ctx, claim(seen.object, owner.OwnerReference))
		if err != nil {
			return observed{}, err
		}
		seen.owners[i].is = is
	}
	return seen, nil
}

// errNoSuchOwner says that an object in no namespace refers to an owner that
// can only be in one. Such a reference leads nowhere, and the object is kept.
var errNoSuchOwner = errors.New("cluster-scoped objects cannot refer to namespaced owners")

// lookUp asks the API server for an owner, unless it is known to be gone. An
// owner whose kind the API server does not know may have been there: it is
// asked for again later.
func (gc *GarbageCollector) lookUp(ctx context.Context, r reference) (ownerState, error) {
	if gc.graph.isAbsent(r) {
		return dangling, nil
	}
	mapping, err := gc.mapping(r.apiVersion, r.kind)
	switch {
	case err != nil:
		return unseen, err
	case mapping.Scope.Name() == meta.RESTScopeNameRoot:
		r = r.clusterScoped()
	case r.namespace == "":
		return unseen, fmt.Errorf("%s: %w", r, errNoSuchOwner)
	}
	live, err := gc.metadata.Resource(mapping.Resource).Namespace(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && live.UID != r.uid:
		gc.graph.absent.Add(r, nil)
		return dangling, nil
	case err != nil:
		return unseen, fmt.Errorf("look for owner %s: %w", r, err)
	}
	return stateOf(live), nil
}

// mapping returns the resource of a kind. One that is not known may be the
// next time: the mapper is as late as any cache.
func (gc *GarbageCollector) mapping(apiVersion, kind string) (*meta.RESTMapping, error) {
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	mapping, err := gc.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("%w: %w", controller.ErrStaleCache, err)
	}
	return mapping, err
}
