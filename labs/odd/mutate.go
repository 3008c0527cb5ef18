package odd

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// odd changes an object: in its metadata, in any of its fields, or by a field that it did not have.
func (d *drawer) odd(k *Kind, object map[string]any) {
	switch at := d.IntN(100); {
	case at < 35:
		metadata, _ := object["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
		}
		object["metadata"] = d.metadata(metadata)
	case at < 42:
		if template := d.inside(d.inside(object["spec"])["template"]); template != nil {
			template["metadata"] = d.metadata(map[string]any{"labels": map[string]any{"app": d.app()}})
		}
	case at < 75:
		d.change(object)
	default:
		other := d.filled(k)
		for _, drawnElsewhere := range []string{"apiVersion", "kind", "metadata", "status"} {
			delete(other, drawnElsewhere)
		}
		d.graft(object, other)
	}
}

// change changes one field of an object, at any depth.
func (d *drawer) change(object map[string]any) {
	if len(object) == 0 {
		return
	}
	key := one(d, slices.Sorted(maps.Keys(object))...)
	if into := d.inside(object[key]); len(into) > 0 && d.in100(85) {
		d.change(into)
		return
	}
	if d.in100(25) {
		object[key] = nil
		return
	}
	switch value := object[key].(type) {
	case string:
		object[key] = one(d, vocabulary.Texts...)
	case bool:
		object[key] = !value
	case int64:
		object[key] = one(d, vocabulary.Numbers...)
	case map[string]any:
		object[key] = map[string]any{}
	case []any:
		if object[key] = []any{}; len(value) > 0 && d.in100(60) {
			object[key] = append(value, value[0])
		}
	}
}

// graft puts a field of another object into one, at any depth.
func (d *drawer) graft(object, other map[string]any) {
	if len(other) == 0 {
		return
	}
	key := one(d, slices.Sorted(maps.Keys(other))...)
	if into, of := d.inside(object[key]), d.inside(other[key]); len(into) > 0 && len(of) > 0 {
		d.graft(into, of)
	} else if other[key] != nil {
		object[key] = other[key]
	}
}

// inside is the map that a value is, or that one of its elements is.
func (d *drawer) inside(value any) map[string]any {
	if list, _ := value.([]any); len(list) > 0 {
		value = one(d, list...)
	}
	fields, _ := value.(map[string]any)
	return fields
}

// filled is an object that is filled in at random, or nothing if its kind has no Go type.
func (d *drawer) filled(k *Kind) map[string]any {
	typed, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(k.APIVersion, k.Kind))
	if err != nil {
		return nil
	}
	d.fill(reflect.ValueOf(typed).Elem())
	object, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(typed) // or it cannot be written as JSON
	return object
}

// fill fills in a value of the API's types: with what the vocabulary has for the type, or else part by part, of which
// it leaves most out that may be left out.
func (d *drawer) fill(v reflect.Value) {
	values, known := vocabulary.Values[v.Type().Name()]
	switch n := 1 + d.IntN(2); {
	case known:
		if err := json.Unmarshal(one(d, values...), v.Addr().Interface()); err != nil {
			panic(err)
		}
	case v.Kind() == reflect.String:
		v.SetString(one(d, vocabulary.Texts...))
	case v.Kind() == reflect.Bool:
		v.SetBool(d.in100(50))
	case v.CanInt():
		v.SetInt(one(d, vocabulary.Numbers...))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			d.fill(v.Field(i))
		}
	case d.in100(40):
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.fill(v.Elem())
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			d.fill(v.Index(i))
		}
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range n {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			d.fill(key)
			d.fill(value)
			v.SetMapIndex(key, value)
		}
	}
}
