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
func (d *drawer) odd(k *Kind, object map[string]any) map[string]any {
	switch at := d.IntN(100); {
	case at < 35:
		metadata, _ := object["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
		}
		object["metadata"] = d.metadata(metadata)
	case at < 42:
		if spec, _ := object["spec"].(map[string]any); spec["template"] != nil {
			template, _ := spec["template"].(map[string]any)
			template["metadata"] = d.metadata(map[string]any{"labels": map[string]any{"app": d.app()}})
		}
	case at < 75:
		d.change(object)
	default:
		object = d.graft(k, object)
	}
	return object
}

// change changes one field of an object, at any depth.
func (d *drawer) change(object map[string]any) {
	var changes []func()
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				changes = append(changes, func() { d.changeField(v, key) })
				walk(v[key])
			}
		case []any:
			for _, element := range v {
				walk(element)
			}
		}
	}
	if walk(object); len(changes) > 0 {
		one(d, changes...)()
	}
}

func (d *drawer) changeField(m map[string]any, key string) {
	switch d.IntN(8) {
	case 0:
		delete(m, key)
		return
	case 1:
		m[key] = nil
		return
	}
	switch value := m[key].(type) {
	case string:
		m[key] = one(d, vocabulary.Texts...)
	case bool:
		m[key] = !value
	case int64:
		m[key] = one(d, vocabulary.Numbers...)
	case map[string]any:
		m[key] = map[string]any{}
	case []any:
		if m[key] = []any{}; len(value) > 0 && d.in100(60) {
			m[key] = append(value, value[0])
		}
	}
}

// graft fills in a field that an object does not have, of those that its Go type has.
func (d *drawer) graft(k *Kind, object map[string]any) map[string]any {
	typed, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(k.APIVersion, k.Kind))
	if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed) != nil {
		return object // it has no Go type, or is too odd for it already
	}
	var empty []reflect.Value
	emptyFields(reflect.ValueOf(typed).Elem(), &empty)
	if len(empty) > 0 {
		d.fill(one(d, empty...))
	}
	return unstructuredFrom(typed, object)
}

// unstructuredFrom returns a typed object, or the former if it cannot be written as JSON.
func unstructuredFrom(typed any, former map[string]any) map[string]any {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return former
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	if status, ok := object["status"].(map[string]any); ok && len(status) == 0 {
		delete(object, "status")
	}
	return object
}

var drawnElsewhere = []string{"ObjectMeta", "TypeMeta", "Status"}

// emptyFields gathers the fields of an object in which nothing is, at any depth.
func emptyFields(v reflect.Value, empty *[]reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			emptyFields(v.Elem(), empty)
		}
	case reflect.Slice:
		for i := range v.Len() {
			emptyFields(v.Index(i), empty)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field, name := v.Field(i), v.Type().Field(i).Name
			switch {
			case !field.CanSet() || field.Kind() == reflect.Interface || slices.Contains(drawnElsewhere, name):
			case field.IsZero():
				*empty = append(*empty, field)
			default:
				emptyFields(field, empty)
			}
		}
	}
}

// filledStatus fills in a status at random.
func (d *drawer) filledStatus(k *Kind) any {
	typed, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(k.APIVersion, k.Kind))
	if err != nil {
		return map[string]any{"replicas": one(d, vocabulary.Numbers...)}
	}
	status := reflect.ValueOf(typed).Elem().FieldByName("Status")
	d.fill(status)
	if filled := unstructuredFrom(typed, nil)["status"]; filled != nil {
		return filled
	}
	return map[string]any{}
}

// fill fills in a value of the API's types: with what the vocabulary has for the type, or else part by part, of which
// it leaves most out that may be left out.
func (d *drawer) fill(v reflect.Value) {
	values, known := vocabulary.Values[v.Type().Name()]
	switch n := d.IntN(3); {
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
	case d.in100(60):
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
