package odd

import (
	"maps"
	"reflect"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"
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
		m[key] = one(d, numbers...)
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
		d.filler().Fill(one(d, empty...).Addr().Interface())
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
		return map[string]any{"replicas": one(d, numbers...)}
	}
	status := reflect.ValueOf(typed).Elem().FieldByName("Status")
	d.filler().Fill(status.Addr().Interface())
	if filled := unstructuredFrom(typed, nil)["status"]; filled != nil {
		return filled
	}
	return map[string]any{}
}

// filler fills values of the API's types. What a type says by itself it gets right most of the time.
func (d *drawer) filler() *randfill.Filler {
	return randfill.NewWithSeed(d.Int64()).NilChance(0.6).NumElements(0, 2).MaxDepth(12).Funcs(
		func(v *string, _ randfill.Continue) { *v = one(d, vocabulary.Texts...) },
		func(v *int32, _ randfill.Continue) { *v = int32(one(d, numbers...)) },
		func(v *int64, _ randfill.Continue) { *v = one(d, numbers...) },
		func(v *metav1.Time, _ randfill.Continue) { v.Time = one(d, times...) },
		func(v *metav1.MicroTime, _ randfill.Continue) { v.Time = one(d, times...) },
		func(v *resource.Quantity, _ randfill.Continue) {
			*v = resource.MustParse(one(d, "0", "1", "1m", "8Ei", "3"))
		},
		func(v *intstr.IntOrString, _ randfill.Continue) {
			*v = intstr.Parse(one(d, "0", "1", "2147483647", "100%", "named"))
		},
		func(v *metav1.LabelSelector, _ randfill.Continue) {
			exists := metav1.LabelSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpExists}
			*v = one(d, metav1.LabelSelector{}, metav1.LabelSelector{MatchLabels: map[string]string{"app": d.app()}},
				metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{exists}})
		},
		func(v *runtime.RawExtension, _ randfill.Continue) {
			v.Raw = []byte(one(d, `{}`, `{"spec": {"template": {}}}`))
		},
		func(v *metav1.OwnerReference, _ randfill.Continue) {},
		oneOf(d, corev1.RestartPolicyAlways, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure),
		oneOf(d, corev1.DNSDefault, corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet),
		oneOf(d, corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown, ""),
		oneOf(d, corev1.PodReady, corev1.PodScheduled, corev1.DisruptionTarget, corev1.ContainersReady, "odd"),
		oneOf(d, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown),
		oneOf(d, metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown),
		oneOf(d, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP),
		oneOf(d, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer,
			corev1.ServiceTypeExternalName),
		oneOf(d, corev1.IPv4Protocol, corev1.IPv6Protocol),
		oneOf(d, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
		oneOf(d, corev1.TolerationOpExists, corev1.TolerationOpEqual),
		oneOf(d, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists,
			corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt),
		oneOf(d, corev1.NodeReady, corev1.NodeNetworkUnavailable),
		oneOf(d, corev1.NamespaceActive, corev1.NamespaceTerminating),
		oneOf(d, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, "example.com/odd",
			"count/widgets.odd.kcm-book.io"),
		oneOf(d, corev1.FinalizerKubernetes, "odd.kcm-book.io/a"),
		oneOf(d, batchv1.JobComplete, batchv1.JobFailed, batchv1.JobSuspended, batchv1.JobFailureTarget,
			batchv1.JobSuccessCriteriaMet),
		oneOf(d, batchv1.IndexedCompletion, batchv1.NonIndexedCompletion),
		oneOf(d, batchv1.Failed, batchv1.TerminatingOrFailed),
		oneOf(d, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6),
	)
}

func oneOf[T ~string](d *drawer, values ...T) any {
	return func(v *T, _ randfill.Continue) { *v = one(d, values...) }
}

// numbers are those at which something changes.
var numbers = []int64{0, 1, 1, 2, 2, 3, -1, 100_000, 1<<31 - 1, 1<<63 - 1, -1 << 63}

// times are long ago, now and never.
var times = []time.Time{{}, time.Unix(0, 0).UTC(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}
