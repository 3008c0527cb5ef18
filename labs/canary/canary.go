// Package canary tells whether a loop of a controller manager still works: it
// gives the loop a fresh object of its kind, and measures how long it takes until
// the loop has done what it is there for.
package canary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kcm-book/kcm-book/labs/await"
)

// Canary is what a loop is tried with.
type Canary struct {
	// Loop is the loop's name, and Does what it has to do.
	Loop, Does string
	// Period is how often the loop looks, where nothing wakes it.
	Period time.Duration

	prepare, do, seen step
}

// Patience is how long a loop gets, beside its period.
const Patience = 60 * time.Second

const every = 20 * time.Millisecond

// Try returns how long the loop has taken. The canary works in that namespace,
// which no other canary may use meanwhile; if it is not there it is created. What
// was created in it is deleted.
func (c Canary) Try(ctx context.Context, client dynamic.Interface, namespace string) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Period+2*Patience)
	defer cancel()
	t := &try{ctx: ctx, client: client, namespace: namespace, name: "canary-" + rand.String(6)}
	defer func() {
		if err = errors.Join(err, t.cleanUp()); err != nil {
			err = fmt.Errorf("the canary of the %s, %q: %w", c.Loop, c.Does, err)
		}
	}()
	if err := t.enter(); err != nil {
		return 0, err
	}
	if c.prepare != nil {
		if err := c.prepare(t); err != nil {
			return 0, err
		}
	}
	begin := time.Now()
	if err := c.do(t); err != nil {
		return 0, err
	}
	err = await.Until(ctx, every, c.Period+Patience, c.Does, func(context.Context) error { return c.seen(t) })
	return time.Since(begin), err
}

// try is a canary that is being tried.
type try struct {
	ctx             context.Context
	client          dynamic.Interface
	namespace, name string
	before          types.UID // of what was deleted, and comes again
	created         []object
}

// step is a request, or a look at what has come of it.
type step func(*try) error

type object = *unstructured.Unstructured

// enter creates the namespace, and waits until pods can run in it.
func (t *try) enter() error {
	err := create(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAMESPACE}}`)(t)
	if t.created = nil; err != nil && !apierrors.IsAlreadyExists(err) { // it stays
		return err
	}
	return await.Until(t.ctx, every, Patience, "the namespace has its account", func(context.Context) error {
		_, err := t.of("ServiceAccount v1").Get(t.ctx, "default", metav1.GetOptions{})
		return err
	})
}

// of returns a client for the objects of a kind, such as "Job v1 batch", in the
// namespace of the canary or where else they are.
func (t *try) of(kind string) dynamic.ResourceInterface {
	words := append(strings.Fields(kind), "")
	return t.in(schema.GroupVersionKind{Kind: words[0], Version: words[1], Group: words[2]}, t.namespace)
}

func (t *try) in(kind schema.GroupVersionKind, namespace string) dynamic.ResourceInterface {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	if kind.Kind == "Namespace" {
		return t.client.Resource(resource)
	}
	return t.client.Resource(resource).Namespace(namespace)
}

// create creates an object. $NAME is a name that is new in each try.
func create(manifest string) step {
	return func(t *try) error {
		o, err := t.object(manifest)
		if err != nil {
			return err
		}
		return t.creating(o)
	}
}

func (t *try) object(manifest string) (object, error) {
	o := &unstructured.Unstructured{}
	manifest = strings.NewReplacer("$NAMESPACE", t.namespace, "$NAME", t.name, "$NOW", time.Now().UTC().Format(time.RFC3339),
		"$TOKEN", strings.TrimPrefix(t.name, "canary-")).Replace(manifest)
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		return nil, fmt.Errorf("%s: %w", manifest, err)
	}
	if o.GetName() == "" {
		o.SetName(t.name)
	}
	if o.GetNamespace() == "" && o.GetKind() != "Namespace" {
		o.SetNamespace(t.namespace)
	}
	return o, nil
}

func (t *try) creating(o object) error {
	created, err := t.in(o.GroupVersionKind(), o.GetNamespace()).Create(t.ctx, o, metav1.CreateOptions{})
	if err == nil {
		t.created = append(t.created, created)
	}
	return err
}

// createOwned creates an object that the last one owns.
func createOwned(manifest string) step {
	return func(t *try) error {
		o, err := t.object(manifest)
		if err != nil {
			return err
		}
		owner := t.last()
		o.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(),
		}})
		return t.creating(o)
	}
}

func (t *try) last() object { return t.created[len(t.created)-1] }

// setStatus sets the status of what was created last.
func setStatus(status string) step {
	return func(t *try) error {
		change, err := t.object(`{status: ` + status + `}`)
		if err != nil {
			return err
		}
		o := t.last().DeepCopy()
		o.Object["status"] = change.Object["status"]
		_, err = t.in(o.GroupVersionKind(), o.GetNamespace()).UpdateStatus(t.ctx, o, metav1.UpdateOptions{})
		return err
	}
}

// remove deletes an object, and remembers which it was. It may have to come first.
func remove(kind, name string, propagation metav1.DeletionPropagation) step {
	return func(t *try) error {
		name := cmp.Or(name, t.name)
		return await.Until(t.ctx, every, Patience, kind+" "+name+" is there", func(context.Context) error {
			o, err := t.of(kind).Get(t.ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			t.before = o.GetUID()
			return t.of(kind).Delete(t.ctx, name, metav1.DeleteOptions{PropagationPolicy: &propagation})
		})
	}
}

// field returns a field, or nil.
func field(o object, fields ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, fields...)
	return value
}

// both takes one step after another.
func both(steps ...step) step {
	return func(t *try) error {
		for _, s := range steps {
			if err := s(t); err != nil {
				return err
			}
		}
		return nil
	}
}

// back is seen when what was deleted is there again.
func back(kind, name string) step {
	return some(kind, func(t *try, o object) bool { return o.GetName() == name && o.GetUID() != t.before })
}

// is is seen when the object that was created last is so.
func is(how string, is func(object) bool) step {
	return func(t *try) error {
		o, err := t.look(t.last())
		if err == nil && !is(o) {
			err = fmt.Errorf("it is not %s: %v", how, o.Object)
		}
		return err
	}
}

// has is seen when the object that was created last has that field.
func has(fields ...string) step {
	return is("with "+strings.Join(fields, "."), func(o object) bool {
		return field(o, fields...) != nil
	})
}

// some is seen when there is such an object.
func some(kind string, is func(*try, object) bool) step {
	return func(t *try) error {
		list, err := t.of(kind).List(t.ctx, metav1.ListOptions{})
		if err == nil && !slices.ContainsFunc(list.Items, func(o unstructured.Unstructured) bool { return is(t, &o) }) {
			err = fmt.Errorf("none of %d objects of %s is so", len(list.Items), kind)
		}
		return err
	}
}

// owned tells whether an object is owned by what was created last, labelled whether
// it has the name of that as a label.
func owned(t *try, o object) bool { return metav1.IsControlledBy(o, t.last()) }
func labelled(label string) func(*try, object) bool {
	return func(t *try, o object) bool { return o.GetLabels()[label] == t.name }
}

// gone is seen when what was created last is not there any more.
func gone(t *try) error {
	o, err := t.look(t.last())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("it is still there: %v", o.Object)
	}
	return err
}

func (t *try) look(o object) (object, error) {
	return t.in(o.GroupVersionKind(), o.GetNamespace()).Get(t.ctx, o.GetName(), metav1.GetOptions{})
}

// cleanUp deletes what was created.
func (t *try) cleanUp() error {
	var errs []error
	for _, o := range t.created {
		objects := t.in(o.GroupVersionKind(), o.GetNamespace())
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), Patience)
		defer cancel()
		if len(o.GetFinalizers()) > 0 {
			_, err := objects.Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			errs = append(errs, err)
		}
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), PropagationPolicy: new(metav1.DeletePropagationBackground)}
		errs = append(errs, objects.Delete(ctx, o.GetName(), now))
	}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil || apierrors.IsNotFound(err) })...)
}

// Has tells whether a loop has a canary.
func Has(loop string) bool {
	return slices.ContainsFunc(All, func(c Canary) bool { return c.Loop == loop })
}
