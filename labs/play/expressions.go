package play

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kcm-book/kcm-book/labs/await"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
)

// expression is a compiled EXPR.
type expression struct {
	source  string
	program cel.Program
}

// language is CEL with the variables and functions of scripts.
var language = newLanguage()

func newLanguage() *cel.Env {
	list, object, text := cel.ListType(cel.DynType), cel.DynType, cel.StringType
	options := []cel.EnvOption{
		cel.OptionalTypes(), ext.Strings(), ext.Encoders(), ext.Lists(), ext.Math(), ext.TwoVarComprehensions(),
		ext.Bindings(), ext.Regex(),
		cel.Variable("self", object),
		cel.Variable("oldSelf", object),
		cel.Variable("vars", cel.MapType(text, cel.DynType)),
		cel.Variable("requests", list),
		cel.Variable("created", cel.MapType(text, list)),
		cel.Variable("logs", cel.MapType(text, text)),
		cel.Variable("now", cel.TimestampType),
		cel.Variable("stdout", text),
		cel.Variable("stderr", text),
		unary("sum", list, cel.IntType, sum),
		unary("claims", text, object, func(token ref.Val) ref.Val { return jsonPart(token, 1) }),
		unary("header", text, object, func(token ref.Val) ref.Val { return jsonPart(token, 0) }),
		binary("condition", object, text, object, condition),
		binary("metric", text, text, cel.DoubleType, metric),
	}
	for _, resource := range kindOf {
		options = append(options, cel.Variable(resource.Resource, list))
	}
	env, err := cel.NewEnv(options...)
	if err == nil {
		env, err = withFunctionsOfSelf(env)
	}
	if err != nil {
		panic(err)
	}
	return env
}

func unary(name string, from, to *cel.Type, f func(ref.Val) ref.Val) cel.EnvOption {
	return cel.Function(name, cel.Overload(name, []*cel.Type{from}, to, cel.UnaryBinding(f)))
}

func binary(name string, first, second, to *cel.Type, f func(first, second ref.Val) ref.Val) cel.EnvOption {
	return cel.Function(name, cel.Overload(name, []*cel.Type{first, second}, to, cel.BinaryBinding(f)))
}

// expressionError says what is wrong in an EXPR, and where.
type expressionError struct {
	source, message string
	column          int // counted from 0
}

func (e *expressionError) Error() string { return "expression " + e.source + ": " + e.message }

func compile(source string) (*expression, error) { return compileIn(language, source) }

func compileIn(env *cel.Env, source string) (*expression, error) {
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		message := strings.TrimSuffix(first.Message, " (in container '')")
		return nil, &expressionError{source, message, max(0, first.Location.Column())} // nothing is nowhere
	}
	program, err := env.Program(ast)
	if err != nil {
		return nil, &expressionError{source: source, message: err.Error()}
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
	return e.truth(e.value(activation))
}

// truth is a value of the expression as true or false.
func (e *expression) truth(value ref.Val, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	truth, ok := value.(types.Bool)
	if !ok {
		return false, await.Fatal(fmt.Errorf("%s is %v and not true or false", e.source, value))
	}
	return bool(truth), nil
}

// activation is what an expression can see. What it does not ask for costs nothing.
func (p *Play) activation(state history.State, self, oldSelf *unstructured.Unstructured) map[string]any {
	seen := map[string]any{
		"vars": p.vars, "now": time.Now(), "logs": func() any { return p.logs() },
		"requests": func() any { return p.requests() }, "created": func() any { return p.created() },
		"stdout": p.stdout, "stderr": p.stderr,
	}
	if self != nil {
		seen["self"] = p.view(self)
	}
	if oldSelf != nil {
		seen["oldSelf"] = p.view(oldSelf)
	}
	for _, resource := range p.recorded {
		seen[resource.Resource] = func() any {
			objects := []any{}
			for _, object := range state.Objects(resource.Resource) {
				if !isWitness(object) {
					objects = append(objects, p.view(object))
				}
			}
			return objects
		}
	}
	return seen
}

// view is withDefaults, once for each version of an object: those that look back see it in many states.
func (p *Play) view(object *unstructured.Unstructured) map[string]any {
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	seen, ok := p.memory.views[object]
	if !ok {
		seen = withDefaults(object)
		p.memory.views[object] = seen
	}
	return seen
}

// requests are those that the API server has served about the namespace, or about anything, in the order of the audit
// log.
func (p *Play) requests() []any {
	events, err := p.Cluster.AuditEvents(func(e *cluster.AuditEvent) bool {
		return (e.ObjectRef.Namespace == p.namespace || p.namespace == "") && e.RequestReceivedTimestamp.After(p.began)
	})
	if err != nil {
		return []any{map[string]any{"error": err.Error()}}
	}
	requests := make([]any, len(events))
	for i, e := range events {
		about, at := e.ObjectRef, e.RequestReceivedTimestamp.Time
		requests[i] = map[string]any{
			"user": e.User.Username, "groups": e.User.Groups, "agent": e.UserAgent, "verb": e.Verb,
			"group": about.APIGroup, "resource": about.Resource, "subresource": about.Subresource,
			"namespace": about.Namespace, "name": about.Name, "code": e.ResponseStatus.Code,
			"time": at, "sinceMark": at.After(p.marked),
		}
	}
	return requests
}

// logs are what the managers have logged so far, by their names.
func (p *Play) logs() map[string]string {
	logs := map[string]string{}
	for name, m := range p.managers {
		logs[name] = m.Log.String()
	}
	return logs
}

// created are the objects that have come since the last mark, by resource, each as it was at first.
func (p *Play) created() map[string]any {
	changes, err := p.recordedChanges()
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	return p.createdIn(changes)
}

func (p *Play) createdIn(changes []history.Change) map[string]any {
	created := map[string]any{}
	for _, resource := range p.recorded {
		created[resource.Resource] = []any{}
	}
	for _, change := range changes {
		if change.Type == watch.Added && change.Version > p.mark && !isWitness(change.Object) {
			created[change.Resource] = append(created[change.Resource].([]any), p.view(change.Object))
		}
	}
	return created
}

// withDefaults returns an object with what the API leaves out when it is empty.
func withDefaults(object *unstructured.Unstructured) map[string]any {
	o := object.DeepCopy().Object
	metadata := o["metadata"].(map[string]any)
	orDefault(metadata, map[string]any{}, "labels", "annotations")
	orDefault(metadata, []any{}, "ownerReferences", "finalizers")
	if object.GroupVersionKind().Group == "apps" || object.GetKind() == "ReplicationController" {
		status, _ := o["status"].(map[string]any)
		if status == nil {
			status = map[string]any{}
			o["status"] = status
		}
		orDefault(status, int64(0), "replicas", "readyReplicas", "availableReplicas", "updatedReplicas",
			"unavailableReplicas", "numberAvailable", "numberUnavailable", "updatedNumberScheduled",
			"fullyLabeledReplicas", "observedGeneration")
		orDefault(status, []any{}, "conditions")
	}
	return o
}

func orDefault(object map[string]any, value any, keys ...string) {
	for _, key := range keys {
		if _, ok := object[key]; !ok {
			object[key] = value
		}
	}
}

// said is what an expression says of an object.
func said(object *unstructured.Unstructured, source string) string {
	e, err := compile(source)
	if err != nil {
		return err.Error()
	}
	value, err := e.value(map[string]any{"self": withDefaults(object)})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(value.Value())
}

// describe shows a state to somebody who wonders why a scenario fails.
func describe(state history.State) string {
	var lines []string
	for _, resource := range slices.Sorted(maps.Keys(state)) {
		for _, object := range state.Objects(resource) {
			line := object.GetKind() + "/" + object.GetName()
			switch resource {
			case "deployments", "replicasets", "replicationcontrollers", "daemonsets", "jobs", "cronjobs":
				replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
				status, _ := json.Marshal(object.Object["status"]) // it came as JSON
				line += fmt.Sprintf(" generation %d spec.replicas %d status %s annotations %v",
					object.GetGeneration(), replicas, status, object.GetAnnotations())
			case "pods":
				line += " " + said(object, `image(self) + " " + self.status.phase + " ready=" + string(ready(self)) +
					" deletion=" + self.metadata.?deletionTimestamp.orValue("")`)
			case "nodes":
				line += " " + said(object, `"Ready=" + condition(self, "Ready").status +
					self.?spec.?taints.orValue([]).map(t, " " + t.key + ":" + t.effect).join("")`)
			case "events":
				line = "Event " + said(object, `self.?type.orValue("") + " " + self.?reason.orValue("") + " (" +
					string(self.?count.orValue(0)) + "): " + self.?message.orValue("")`)
			}
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
