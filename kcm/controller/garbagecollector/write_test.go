package garbagecollector

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// deletion deletes pod as it is judged, after something has happened to it, and
// tells the requests and what is left.
func deletion(t *testing.T, happens ...func(a *api, pod *object)) (a *api, err error) {
	t.Helper()
	a = newAPI(configMaps)
	pod, err := a.stores[configMaps].Create(thing("pod", ownedBy(thing("owner"))))
	require.NoError(t, err)
	for _, happen := range happens {
		happen(a, pod.DeepCopy())
	}
	gc := &GarbageCollector{metadata: a, mapper: mapperOf("ConfigMap")}
	return a, gc.deleteObject(t.Context(), pod, metav1.DeletePropagationBackground)
}

// changes changes pod on the API server, which the cache does not show yet.
func changes(change func(*object)) func(*api, *object) {
	return func(a *api, pod *object) {
		change(pod)
		if _, err := a.stores[configMaps].Update(pod); err != nil {
			panic(err)
		}
	}
}

func labelled(o *object) { o.Labels = map[string]string{"version": o.ResourceVersion} }

func (a *api) left() string {
	var names []string
	for _, obj := range a.stores[configMaps].List() {
		names = append(names, obj.Name)
	}
	return cmp.Or(strings.Join(names, ", "), "nothing")
}

func (a *api) told() string { return strings.Join(a.requests, "; ") }

func TestConditions(t *testing.T) {
	t.Parallel()
	t.Run("it is deleted if it is the one and in the version that was judged", func(t *testing.T) {
		t.Parallel()
		a, err := deletion(t)
		require.NoError(t, err)
		assert.Equal(t, "delete pod if it is uid-pod-2 in version 2", a.told(), "the cache shows pod as it is")
		assert.Equal(t, "nothing", a.left())
	})
	t.Run("with other labels it is deleted in its newer version", func(t *testing.T) {
		t.Parallel()
		a, err := deletion(t, changes(labelled))
		require.NoError(t, err)
		assert.Equal(t, "delete pod if it is uid-pod-2 in version 2; get pod; delete pod if it is uid-pod-2 in version 3", a.told(), "pod has got a label that the cache does not show")
		assert.Equal(t, "nothing", a.left())
	})
	for _, c := range []struct {
		name, situation string
		change          func(*object)
	}{
		{"one that has another owner by now is spared", "pod was adopted, and the cache does not show it", ownedBy(thing("next"))},
		{"one that has no owner by now is spared", "pod was freed, and the cache does not show it", func(o *object) { o.OwnerReferences = nil }},
		{"one that has another finalizer by now is spared", "pod is to orphan its dependents, and the cache does not show it", withFinalizers(orphan)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, err := deletion(t, changes(c.change))
			assert.Equal(t, "pod", a.left(), "what is left: %s", c.situation)
			assert.ErrorIs(t, err, controller.ErrStaleCache, "it is to be judged again, without anybody being told of a failure: %s", c.situation)
		})
	}
	t.Run("one that has lost the owner that was to keep it keeps its references", func(t *testing.T) {
		t.Parallel()
		a := newAPI(configMaps)
		pod, err := a.stores[configMaps].Create(thing("pod", ownedBy(thing("gone"), thing("solid"))))
		require.NoError(t, err)
		changes(func(o *object) { o.OwnerReferences = o.OwnerReferences[:1] })(a, pod.DeepCopy())
		gc := &GarbageCollector{metadata: a, mapper: mapperOf("ConfigMap")}
		err = gc.act(t.Context(), observed{object: pod}, plan{drop: []metav1.OwnerReference{refTo(thing("gone"))}})
		assert.ErrorIs(t, err, controller.ErrStaleCache, "pod was kept for solid, and the cache does not show that it belongs to solid no more")
		left, err := a.stores[configMaps].Get("pod")
		require.NoError(t, err)
		assert.Len(t, left.OwnerReferences, 1, "without owners nobody would ever delete it")
	})
	t.Run("a reference that is true stays where a wrong one to the same UID is dropped", func(t *testing.T) {
		t.Parallel()
		a := newAPI(configMaps)
		boss := calling(thing("solid"), func(r *metav1.OwnerReference) { r.Name = "boss" })
		pod, err := a.stores[configMaps].Create(thing("pod", ownedBy(thing("solid")), boss))
		require.NoError(t, err)
		gc := &GarbageCollector{metadata: a, mapper: mapperOf("ConfigMap")}
		require.NoError(t, gc.act(t.Context(), observed{object: pod}, plan{drop: pod.OwnerReferences[1:]}))
		left, err := a.stores[configMaps].Get("pod")
		require.NoError(t, err)
		assert.Equal(t, pod.OwnerReferences[:1], left.OwnerReferences)
	})
	t.Run("one that is being deleted is not deleted again", func(t *testing.T) {
		t.Parallel()
		a, err := deletion(t, changes(deleted("example.com/mine")))
		require.NoError(t, err)
		assert.Equal(t, "delete pod if it is uid-pod-2 in version 2; get pod", a.told(), "somebody else has deleted pod, and a finalizer keeps it")
	})
	t.Run("one that is gone is no failure", func(t *testing.T) {
		t.Parallel()
		_, err := deletion(t, func(a *api, _ *object) { a.stores[configMaps].Delete("pod") })
		assert.NoError(t, err, "somebody else has deleted pod")
	})
	t.Run("one that goes between two requests is no failure", func(t *testing.T) {
		t.Parallel()
		_, err := deletion(t, changes(labelled), func(a *api, _ *object) {
			a.before = func(verb string) {
				if verb == "get" {
					a.stores[configMaps].Delete("pod")
				}
			}
		})
		assert.NoError(t, err, "pod was changed, and goes after the first request")
	})
	t.Run("another object of its name is left alone", func(t *testing.T) {
		t.Parallel()
		a, err := deletion(t, func(a *api, _ *object) {
			a.stores[configMaps].Delete("pod")
			if _, err := a.stores[configMaps].Create(thing("pod", ownedBy(thing("owner")))); err != nil {
				panic(err)
			}
		})
		assert.NoError(t, err, "pod was deleted and created again")
		assert.Equal(t, "pod", a.left(), "pod was deleted and created again")
	})
	t.Run("one that is changed all the time is given up for now", func(t *testing.T) {
		t.Parallel()
		a, err := deletion(t, func(a *api, _ *object) {
			a.before = func(string) {
				pod, err := a.stores[configMaps].Get("pod")
				if err == nil {
					changes(labelled)(a, pod)
				}
			}
		})
		assert.Error(t, err, "somebody changes pod before each request")
		assert.Equal(t, "pod", a.left())
		assert.Less(t, len(a.requests), 20, "requests before it is put back into the queue")
	})
	t.Run("one whose version is not served any more is tried again", func(t *testing.T) {
		t.Parallel()
		gc := &GarbageCollector{metadata: newAPI(), mapper: mapperOf("ConfigMap")}
		assert.Error(t, gc.deleteObject(t.Context(), thing("pod"), metav1.DeletePropagationBackground), "the mapper still knows ConfigMaps")
	})
	t.Run("any other refusal is a failure", func(t *testing.T) {
		t.Parallel()
		gc := &GarbageCollector{metadata: newAPI(configMaps), mapper: mapperOf("ConfigMap")}
		refused := errors.New("the API server is overloaded")
		err := gc.write(t.Context(), thing("pod"), func(metadata.ResourceInterface, *object) error { return refused })
		assert.ErrorIs(t, err, refused)
	})
	t.Run("of a kind that nobody knows it is tried again later", func(t *testing.T) {
		t.Parallel()
		gc := &GarbageCollector{metadata: newAPI(configMaps), mapper: mapperOf()}
		err := gc.deleteObject(t.Context(), thing("pod"), metav1.DeletePropagationBackground)
		assert.ErrorIs(t, err, controller.ErrStaleCache, "the mapper does not know ConfigMaps yet")
	})
}
