package scenarios

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
)

// expression is a compiled EXPR.
type expression struct {
	source  string
	program cel.Program
}

// language is CEL with the variables and functions of scenarios.
var language = newLanguage()

func newLanguage() *cel.Env {
	list, object, text := cel.ListType(cel.DynType), cel.DynType, cel.StringType
	options := []cel.EnvOption{
		cel.OptionalTypes(), ext.Strings(), ext.Encoders(), ext.Lists(), ext.Math(), ext.TwoVarComprehensions(),
		cel.Variable("self", object),
		cel.Variable("vars", cel.MapType(text, cel.DynType)),
		cel.Variable("requests", list),
		unary("image", object, text, image),
		unary("owner", object, text, owner),
		unary("revision", object, cel.IntType, revision),
		unary("ready", object, cel.BoolType, ready),
		unary("ended", object, cel.BoolType, ended),
		unary("rolledOut", object, cel.BoolType, rolledOut),
		unary("sum", list, cel.IntType, sum),
		cel.Function("condition", cel.Overload("condition", []*cel.Type{object, text}, object,
			cel.BinaryBinding(func(object, kind ref.Val) ref.Val { return condition(object, string(kind.(types.String))) }))),
	}
	for _, resource := range recorded {
		options = append(options, cel.Variable(resource.Resource, list))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		panic(err)
	}
	return env
}

func unary(name string, from, to *cel.Type, f func(ref.Val) ref.Val) cel.EnvOption {
	return cel.Function(name, cel.Overload(name, []*cel.Type{from}, to, cel.UnaryBinding(f)))
}

func compile(source string) (*expression, error) {
	ast, issues := language.Compile(source)
	if issues.Err() != nil {
		return nil, fmt.Errorf("expression %s: %w", source, issues.Err())
	}
	program, err := language.Program(ast)
	if err != nil {
		return nil, fmt.Errorf("expression %s: %w", source, err)
	}
	return &expression{source, program}, nil
}

func (e *expression) value(activation map[string]any) (ref.Val, error) {
	value, _, err := e.program.Eval(activation)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.source, err)
	}
	return value, nil
}

func (e *expression) isTrue(activation map[string]any) (bool, error) {
	value, err := e.value(activation)
	if err != nil {
		return false, err
	}
	truth, ok := value.(types.Bool)
	if !ok {
		return false, &fatalError{fmt.Errorf("%s is %v and not true or false", e.source, value)}
	}
	return bool(truth), nil
}

// activation is what an expression can see. What it does not ask for costs
// nothing.
func (s *scenario) activation(state history.State, self map[string]any) map[string]any {
	seen := map[string]any{"vars": s.vars, "requests": func() any { return s.requests() }}
	if self != nil {
		seen["self"] = self
	}
	for _, resource := range recorded {
		seen[resource.Resource] = func() any {
			objects := []any{}
			for _, object := range state.Objects(resource.Resource) {
				if !isWitness(object) {
					objects = append(objects, s.view(object))
				}
			}
			return objects
		}
	}
	return seen
}

// view is withDefaults, once for each version of an object: those that look
// back see it in many states.
func (s *scenario) view(object *unstructured.Unstructured) map[string]any {
	seen, ok := s.views[object]
	if !ok {
		seen = withDefaults(object)
		s.views[object] = seen
	}
	return seen
}

// requests are those that the API server has served in the scenario's
// namespace, in the order of the audit log.
func (s *scenario) requests() []any {
	events, err := lab.AuditEvents(func(e cluster.AuditEvent) bool { return e.Namespace == s.namespace })
	if err != nil {
		return []any{map[string]any{"error": err.Error()}}
	}
	requests := make([]any, len(events))
	for i, e := range events {
		requests[i] = map[string]any{
			"user": e.User, "verb": e.Verb, "group": e.APIGroup, "resource": e.Resource, "subresource": e.Subresource, "name": e.Name, "code": e.Code,
		}
	}
	return requests
}

// withDefaults returns an object with what the API leaves out when it is empty.
func withDefaults(object *unstructured.Unstructured) map[string]any {
	o := object.DeepCopy().Object
	metadata := o["metadata"].(map[string]any)
	orDefault(metadata, map[string]any{"labels": map[string]any{}, "annotations": map[string]any{}, "ownerReferences": []any{}, "finalizers": []any{}})
	switch object.GetKind() {
	case "Deployment", "ReplicaSet", "ReplicationController":
		status, _ := o["status"].(map[string]any)
		if status == nil {
			status = map[string]any{}
			o["status"] = status
		}
		for _, count := range []string{"replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "unavailableReplicas", "fullyLabeledReplicas", "observedGeneration"} {
			orDefault(status, map[string]any{count: int64(0)})
		}
		orDefault(status, map[string]any{"conditions": []any{}})
	}
	return o
}

func orDefault(object, defaults map[string]any) {
	for key, value := range defaults {
		if _, ok := object[key]; !ok {
			object[key] = value
		}
	}
}

// native returns a CEL value as unstructured Go.
func native(value ref.Val) map[string]any {
	object, _ := value.Value().(map[string]any)
	return object
}

func image(object ref.Val) ref.Val {
	spec := []string{"spec", "containers"}
	if _, ok, _ := unstructured.NestedMap(native(object), "spec", "template"); ok {
		spec = []string{"spec", "template", "spec", "containers"}
	}
	containers, _, _ := unstructured.NestedSlice(native(object), spec...)
	if len(containers) == 0 {
		return types.String("")
	}
	name, _, _ := unstructured.NestedString(containers[0].(map[string]any), "image")
	return types.String(name)
}

func owner(object ref.Val) ref.Val {
	for _, ref := range (&unstructured.Unstructured{Object: native(object)}).GetOwnerReferences() {
		if ref.Controller != nil && *ref.Controller {
			return types.String(ref.Kind + "/" + ref.Name)
		}
	}
	return types.String("")
}

func revision(object ref.Val) ref.Val {
	text, _, _ := unstructured.NestedString(native(object), "metadata", "annotations", "deployment.kubernetes.io/revision")
	if text == "" {
		return types.Int(0)
	}
	return types.String(text).ConvertToType(types.IntType)
}

func ready(pod ref.Val) ref.Val {
	_, deleted, _ := unstructured.NestedString(native(pod), "metadata", "deletionTimestamp")
	return types.Bool(!deleted && conditionOf(native(pod), "Ready")["status"] == "True")
}

// rolledOut asks what kubectl rollout status asks, and that all pods of the new
// version are available.
func rolledOut(deployment ref.Val) ref.Val {
	number := func(path ...string) int64 {
		n, _, _ := unstructured.NestedInt64(native(deployment), path...)
		return n
	}
	wanted := number("spec", "replicas")
	return types.Bool(number("status", "observedGeneration") >= number("metadata", "generation") &&
		number("status", "updatedReplicas") == wanted && number("status", "replicas") == wanted && number("status", "availableReplicas") == wanted)
}

func ended(pod ref.Val) ref.Val {
	phase, _, _ := unstructured.NestedString(native(pod), "status", "phase")
	return types.Bool(phase == "Succeeded" || phase == "Failed")
}

func condition(object ref.Val, kind string) ref.Val {
	return types.DefaultTypeAdapter.NativeToValue(conditionOf(native(object), kind))
}

func conditionOf(object map[string]any, kind string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(object, "status", "conditions")
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == kind {
			orDefault(c, map[string]any{"reason": "", "message": ""})
			return c
		}
	}
	return map[string]any{"type": kind, "status": "", "reason": "", "message": ""}
}

func sum(list ref.Val) ref.Val {
	total := types.Int(0)
	for it := list.(traits.Lister).Iterator(); it.HasNext() == types.True; {
		n, ok := it.Next().(types.Int)
		if !ok {
			return types.NewErr("sum: not a whole number")
		}
		total += n
	}
	return total
}

// describe shows a state to somebody who wonders why a scenario fails.
func describe(state history.State) string {
	var lines []string
	for _, resource := range recorded {
		for _, object := range state.Objects(resource.Resource) {
			o := withDefaults(object)
			switch resource.Resource {
			case "deployments", "replicasets", "replicationcontrollers":
				replicas, _, _ := unstructured.NestedInt64(o, "spec", "replicas")
				lines = append(lines, fmt.Sprintf("%s/%s generation %d spec.replicas %d status %v annotations %v", object.GetKind(), object.GetName(), object.GetGeneration(), replicas, o["status"], object.GetAnnotations()))
			case "pods":
				status, _ := o["status"].(map[string]any)
				lines = append(lines, fmt.Sprintf("Pod/%s %v %v ready=%v deletion=%v", object.GetName(), image(types.DefaultTypeAdapter.NativeToValue(o)), status["phase"], conditionOf(o, "Ready")["status"], object.GetDeletionTimestamp()))
			case "events":
				lines = append(lines, fmt.Sprintf("Event %v %v: %v", o["type"], o["reason"], o["message"]))
			default:
				lines = append(lines, fmt.Sprintf("%s/%s", object.GetKind(), object.GetName()))
			}
		}
	}
	return strings.Join(lines, "\n")
}
