package garbagecollector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/kcm-book/kcm-book/labs/latecache"
)

// api is an API server that has the metadata of objects of several kinds, in
// the namespace "here". It serves no other kinds.
type api struct {
	metadata.Getter
	mu     sync.Mutex // guards requests
	stores map[schema.GroupVersionResource]*latecache.Store[*object]
	// requests are those that were made, in words.
	requests []string
	// before is called before each answer, if it is set.
	before func(verb string)
	// deleting is called when an object is about to be deleted, if it is set.
	deleting func(obj *object, policy metav1.DeletionPropagation)

	resource schema.GroupVersionResource
	root     *api
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func newAPI(resources ...schema.GroupVersionResource) *api {
	a := &api{stores: map[schema.GroupVersionResource]*latecache.Store[*object]{}}
	a.root = a
	for _, r := range resources {
		a.stores[r] = latecache.NewStore[*object](r.GroupResource())
	}
	return a
}

func (a *api) Resource(resource schema.GroupVersionResource) metadata.Getter {
	return &api{stores: a.stores, resource: resource, root: a.root}
}

func (a *api) Namespace(string) metadata.ResourceInterface { return a }

func (a *api) note(verb, name string) {
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	a.root.requests = append(a.root.requests, verb+" "+name)
}

func (a *api) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*object, error) {
	a.note("get", name)
	if a.root.before != nil {
		a.root.before("get")
	}
	return a.find(name)
}

// find returns an object, or the answer that there is none, or no such resource.
func (a *api) find(name string) (*object, error) {
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	if store := a.stores[a.resource]; store != nil {
		return store.Get(name)
	}
	return nil, apierrors.NewGenericServerResponse(404, "get", a.resource.GroupResource(), name, "404 page not found", 0, true)
}

// meets returns the object if there is one and it is the one that is meant.
func (a *api) meets(verb, name string, uid *types.UID, version *string) (*object, error) {
	what := name
	if uid != nil {
		what += fmt.Sprintf(" if it is %s", *uid)
	}
	if version != nil {
		what += fmt.Sprintf(" in version %s", *version)
	}
	a.note(verb, what)
	if a.root.before != nil {
		a.root.before(verb)
	}
	obj, err := a.find(name)
	switch {
	case err != nil:
		return nil, err
	case uid != nil && *uid != obj.UID, version != nil && *version != obj.ResourceVersion:
		return nil, apierrors.NewConflict(a.resource.GroupResource(), name, errors.New("precondition failed"))
	}
	return obj, nil
}

// Delete does what the API server does with a deletion: finalizers keep the
// object, and the policy decides about two of them.
func (a *api) Delete(_ context.Context, name string, options metav1.DeleteOptions, _ ...string) error {
	conditions := &metav1.Preconditions{}
	if options.Preconditions != nil {
		conditions = options.Preconditions
	}
	obj, err := a.meets("delete", name, conditions.UID, conditions.ResourceVersion)
	if err != nil {
		return err
	}
	if a.root.deleting != nil {
		a.root.deleting(obj, *options.PropagationPolicy)
	}
	obj = beginDeletion(obj, *options.PropagationPolicy)
	a.root.mu.Lock()
	defer a.root.mu.Unlock()
	if len(obj.Finalizers) == 0 {
		return a.stores[a.resource].Delete(name)
	}
	_, err = a.stores[a.resource].Update(obj)
	return err
}

func beginDeletion(obj *object, policy metav1.DeletionPropagation) *object {
	obj = obj.DeepCopy()
	var finalizers []string
	for _, f := range obj.Finalizers {
		if f != orphan && f != foreground {
			finalizers = append(finalizers, f)
		}
	}
	switch policy {
	case metav1.DeletePropagationOrphan:
		finalizers = append(finalizers, orphan)
	case metav1.DeletePropagationForeground:
		finalizers = append(finalizers, foreground)
	}
	obj.Finalizers = finalizers
	if obj.DeletionTimestamp == nil {
		deleted()(obj)
	}
	return obj
}

func (a *api) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*object, error) {
	var change struct {
		Metadata struct {
			UID             types.UID
			ResourceVersion string
			Finalizers      *[]string
			OwnerReferences json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &change); err != nil {
		return nil, err
	}
	obj, err := a.meets("patch", name, &change.Metadata.UID, &change.Metadata.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if refs := change.Metadata.OwnerReferences; refs != nil {
		obj.OwnerReferences = nil
		if err := json.Unmarshal(refs, &obj.OwnerReferences); err != nil {
			return nil, err
		}
	}
	if strings.Contains(string(data), `"finalizers"`) {
		obj.Finalizers = nil
		if change.Metadata.Finalizers != nil {
			obj.Finalizers = *change.Metadata.Finalizers
		}
	}
	if obj.DeletionTimestamp != nil && len(obj.Finalizers) == 0 {
		return obj, a.stores[a.resource].Delete(name)
	}
	return a.stores[a.resource].Update(obj)
}

// fixedMapper knows its kinds from the beginning.
type fixedMapper struct{ meta.RESTMapper }

func (fixedMapper) Reset() {}

func mapperOf(kinds ...string) fixedMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range kinds {
		m.Add(schema.GroupVersionKind{Version: "v1", Kind: kind}, meta.RESTScopeNamespace)
	}
	return fixedMapper{m}
}
