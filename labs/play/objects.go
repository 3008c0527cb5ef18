package play

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kcm-book/kcm-book/labs/history"
)

// kindOf has the kinds that a script may name, in lower-case letters: those of Kubernetes' own API that are stable.
// Where two groups have a kind, as with Event, it is the one of the older group.
var kindOf = stableKinds()

func stableKinds() map[string]schema.GroupVersionResource {
	all := map[string]schema.GroupVersionResource{}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		kind := strings.ToLower(gvk.Kind)
		if gvk.Version != "v1" || !scheme.Scheme.Recognizes(gvk.GroupVersion().WithKind(gvk.Kind+"List")) {
			continue
		}
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		if known, has := all[kind]; !has || cmp.Compare(plural.Group, known.Group) < 0 {
			all[kind] = plural
		}
	}
	return all
}

// clusterScoped are the resources of kinds that are in no namespace, as far as scripts look at them.
var clusterScoped = []string{"namespaces", "nodes", "persistentvolumes", "clusterroles", "clusterrolebindings",
	"certificatesigningrequests", "validatingadmissionpolicybindings"}

// mentionedIn returns the resources that a text names, as an OBJECT or as a list in an EXPR, in the order of their
// names.
func mentionedIn(text string) []schema.GroupVersionResource {
	words := map[string]bool{}
	for _, word := range regexp.MustCompile(`[a-z]+`).FindAllString(text, -1) {
		words[word] = true
	}
	var all []schema.GroupVersionResource
	for kind, resource := range kindOf {
		if words[resource.Resource] || words[kind] && (strings.Contains(text, kind+"/") || strings.Contains(text, kind+"[")) {
			all = append(all, resource)
		}
	}
	slices.SortFunc(all, func(a, b schema.GroupVersionResource) int { return cmp.Compare(a.Resource, b.Resource) })
	return slices.Compact(all)
}

// usedBy names what verbs look at without its being said.
func usedBy(text string) string {
	used := " serviceaccounts configmaps" // a namespace that is ready for pods
	for verb, resources := range map[string]string{
		"event ": " events", "settle": " deployments replicasets", "draw ": " replicasets",
	} {
		if strings.Contains(text, verb) {
			used += resources
		}
	}
	return used
}

// operand is a reference to an OBJECT: kind/name or kind[EXPR].
type operand struct {
	source   string
	kind     string // in lower-case letters
	resource schema.GroupVersionResource
	name     string
	selects  *expression // instead of a name
}

var operandForm = regexp.MustCompile(`(?s)^([a-z]+)(?:/(.+)|\[(.+)\])$`)

// isObject tells whether an argument is an OBJECT and not an EXPR.
func isObject(argument string) bool {
	match := operandForm.FindStringSubmatch(argument)
	return match != nil && kindOf[match[1]].Resource != ""
}

func parseOperand(argument string) (_ *operand, err error) {
	if !isObject(argument) {
		return nil, fmt.Errorf("%q is not an object: write kind/name or kind[EXPR], with a kind such as deployment", argument)
	}
	match := operandForm.FindStringSubmatch(argument)
	o := &operand{source: argument, kind: match[1], resource: kindOf[match[1]], name: match[2]}
	if match[3] != "" {
		o.selects, err = compile(match[3])
	}
	if at := (*expressionError)(nil); errors.As(err, &at) {
		at.column += len(match[1]) + 1
	}
	return o, err
}

// find returns the object in a state, or nil.
func (p *Play) find(o *operand, state history.State) *unstructured.Unstructured {
	for _, object := range state.Objects(o.resource.Resource) {
		if p.is(o, state, object) {
			return object
		}
	}
	return nil
}

// is tells whether an object of the kind is the one that is meant.
func (p *Play) is(o *operand, state history.State, object *unstructured.Unstructured) bool {
	if o.selects == nil {
		return object.GetName() == o.name
	}
	if isWitness(object) {
		return false
	}
	ok, err := o.selects.isTrue(p.activation(state, object, nil))
	return ok && err == nil
}

// locate returns the OBJECT of a line and its name. It waits for one that is described by an expression: what a step
// before has led to may not be there yet.
func (p *Play) locate(c *call) (o *operand, name string, err error) {
	if o = argument[*operand](c, "OBJECT"); o.selects == nil {
		return o, o.name, nil
	}
	err = p.poll("there is "+o.source, func(now history.State) (bool, error) {
		object := p.find(o, now)
		if object == nil {
			return false, fmt.Errorf("there is no %s", o.source)
		}
		name = object.GetName()
		return true, nil
	})
	return o, name, err
}

// api returns what talks to the API server about a resource, where the script looks.
func (p *Play) api(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	if slices.Contains(clusterScoped, resource.Resource) {
		return p.client.Resource(resource)
	}
	return p.client.Resource(resource).Namespace(p.namespace)
}
