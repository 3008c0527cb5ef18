// Package history records what happens to the objects of a namespace, so that a test or a lab can look back: not only
// at how it ended, but at every state on the way.
package history

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Change is one version of one object, as a watch has brought it.
type Change struct {
	// Type is Added, Modified or Deleted.
	Type watch.EventType
	// Resource is the plural name, such as "replicasets".
	Resource string
	Object   *unstructured.Unstructured
	// Version is the object's resourceVersion as a number. All resources are in one etcd, so it tells which of two changes
	// came first, also when they are of different resources. (The API promises that for one resource only.)
	Version uint64
	// Seen is when the watch brought it.
	Seen time.Time
}

// State is what was there at one moment: the objects of each resource by UID. It must not be changed.
type State map[string]map[types.UID]*unstructured.Unstructured

// Objects returns the objects of a resource in the order of their names.
func (s State) Objects(resource string) []*unstructured.Unstructured {
	return slices.SortedFunc(maps.Values(s[resource]), func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetUID(), b.GetUID()))
	})
}

// Recording records until the context of Record ends. Its methods may be called at any time.
type Recording struct {
	clients map[string]dynamic.ResourceInterface // by resource
	watches sync.WaitGroup

	mu      sync.Mutex
	changes []Change
	err     error
	news    chan struct{} // is closed when there is more of either
}

// Record begins to record resources, by their plural names. What is there already comes first, as if it were added now.
// While the API server stays up nothing is missed; when it is started anew, states from its first moments may be.
func Record(ctx context.Context, resources map[string]dynamic.ResourceInterface) (*Recording, error) {
	r := &Recording{clients: resources, news: make(chan struct{})}
	for resource, client := range resources {
		version, err := r.list(ctx, client, resource)
		if err != nil {
			return nil, fmt.Errorf("record %s: %w", resource, err)
		}
		r.watches.Go(func() {
			if err := r.watch(ctx, client, resource, version); err != nil {
				r.tell(fmt.Errorf("the watch of %s broke off: %w", resource, err))
			}
		})
	}
	return r, nil
}

// list records what is different now from what was recorded, and returns the version from which a watch goes on.
func (r *Recording) list(ctx context.Context, client dynamic.ResourceInterface, resource string) (string, error) {
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	r.addDifference(resource, list)
	return list.GetResourceVersion(), nil
}

// watch records what happens after a version, until ctx ends. A watch that the API server cuts off, for example because
// it does not keep up, goes on where it was, so it misses nothing. An API server that was started anew does not know
// what has happened since a version from before. Then what is there now counts as what has happened: states in between
// are lost.
func (r *Recording) watch(ctx context.Context, client dynamic.ResourceInterface, resource, version string) error {
	source := &cache.ListWatch{WatchFuncWithContext: client.Watch}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, version, source)
	if err != nil {
		return err
	}
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if ok && event.Type != watch.Error {
			r.add(event.Type, resource, object)
			continue
		}
		cause := apierrors.FromObject(event.Object)
		if !apierrors.IsResourceExpired(cause) && !apierrors.IsGone(cause) {
			return cause
		}
		if version, err = r.list(ctx, client, resource); err != nil {
			return fmt.Errorf("%w; and then: %w", cause, err)
		}
		return r.watch(ctx, client, resource, version)
	}
	return nil
}

// addDifference records what is different in a list from what was recorded.
func (r *Recording) addDifference(resource string, list *unstructured.UnstructuredList) {
	changes, _ := r.Changes()
	recorded := Now(changes)[resource]
	gone := maps.Clone(recorded)
	for i := range list.Items {
		object := &list.Items[i]
		before := recorded[object.GetUID()]
		delete(gone, object.GetUID())
		switch {
		case before == nil:
			r.add(watch.Added, resource, object)
		case before.GetResourceVersion() != object.GetResourceVersion():
			r.add(watch.Modified, resource, object)
		}
	}
	for _, object := range gone {
		object = object.DeepCopy()
		object.SetResourceVersion(list.GetResourceVersion()) // the latest at which it can have gone
		r.add(watch.Deleted, resource, object)
	}
}

func (r *Recording) add(kind watch.EventType, resource string, object *unstructured.Unstructured) {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		r.tell(fmt.Errorf("resourceVersion of %s %s: %w", resource, object.GetName(), err))
		return
	}
	r.tell(nil, Change{Type: kind, Resource: resource, Object: object, Version: version, Seen: time.Now()})
}

func (r *Recording) tell(err error, changes ...Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = cmp.Or(r.err, err)
	r.changes = append(r.changes, changes...)
	close(r.news)
	r.news = make(chan struct{})
}

// Wait returns when nothing is recorded any more, after the context of Record has ended.
func (r *Recording) Wait() { r.watches.Wait() }

// after returns the changes after the first n in the order in which the watches have brought them, what is closed when
// there is more, and what was missed.
func (r *Recording) after(n int) ([]Change, <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.changes[n:]), r.news, r.err
}

// Changes returns what has happened so far, in the order in which it happened, or an error if something was missed.
func (r *Recording) Changes() ([]Change, error) {
	changes, _, err := r.after(0)
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Version, b.Version) })
	return changes, err
}

// Follow hands out all changes from the beginning on, each as soon as it is recorded and in the order in which the
// watches have brought them, until ctx ends.
func (r *Recording) Follow(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		for handed := 0; ; {
			changes, news, _ := r.after(handed)
			for _, change := range changes {
				if handed++; !yield(change) {
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-news:
			}
		}
	}
}

// CatchUp returns when all that had happened when it was called is recorded, and the version until which that is.
func (r *Recording) CatchUp(ctx context.Context) (version uint64, err error) {
	for resource, client := range r.clients {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, fmt.Errorf("list %s: %w", resource, err)
		}
		listed, err := strconv.ParseUint(list.GetResourceVersion(), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("resourceVersion of the list of %s: %w", resource, err)
		}
		version = max(version, listed)
		for {
			changes, news, err := r.after(0)
			if err != nil {
				return 0, err
			}
			until := slices.DeleteFunc(changes, func(c Change) bool { return c.Version > listed })
			if isList(Now(until)[resource], list.Items) {
				break
			}
			select {
			case <-ctx.Done():
				return 0, fmt.Errorf("wait until the recorded %s are those that are there: %w", resource, ctx.Err())
			case <-news:
			}
		}
	}
	return version, nil
}

// isList tells whether the recorded objects are those of a list, in the same versions.
func isList(recorded map[types.UID]*unstructured.Unstructured, listed []unstructured.Unstructured) bool {
	return len(recorded) == len(listed) && !slices.ContainsFunc(listed, func(object unstructured.Unstructured) bool {
		seen := recorded[object.GetUID()]
		return seen == nil || seen.GetResourceVersion() != object.GetResourceVersion()
	})
}

// Now returns the state after all changes.
func Now(changes []Change) State {
	now := State{}
	for _, now = range States(changes) {
	}
	return now
}

// States returns the state after each change, with the number of that change. The state is the same value each time and
// is changed for the next one.
func States(changes []Change) iter.Seq2[int, State] {
	return func(yield func(int, State) bool) {
		state := State{}
		for i, change := range changes {
			objects := state[change.Resource]
			if objects == nil {
				objects = map[types.UID]*unstructured.Unstructured{}
				state[change.Resource] = objects
			}
			if change.Type == watch.Deleted {
				delete(objects, change.Object.GetUID())
			} else {
				objects[change.Object.GetUID()] = change.Object
			}
			if !yield(i, state) {
				return
			}
		}
	}
}
