package scenarios

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kcm-book/kcm-book/labs/history"
)

// reference to an OBJECT: kind/name or kind[EXPR].
type operand struct {
	source   string
	resource schema.GroupVersionResource
	name     string
	selects  *expression // instead of a name
}

var (
	byName       = regexp.MustCompile(`^([a-z]+)/(.+)$`)
	byExpression = regexp.MustCompile(`(?s)^([a-z]+)\[(.+)\]$`)
)

// isObject tells whether an argument is an OBJECT and not an EXPR.
func isObject(argument string) bool {
	for _, form := range []*regexp.Regexp{byName, byExpression} {
		if match := form.FindStringSubmatch(argument); match != nil {
			_, known := kindOf[match[1]]
			return known
		}
	}
	return false
}

func parseOperand(argument string) (operand, error) {
	if !isObject(argument) {
		return operand{}, fmt.Errorf("%q is not an object: write kind/name or kind[EXPR]", argument)
	}
	if match := byExpression.FindStringSubmatch(argument); match != nil {
		selects, err := compile(match[2])
		return operand{source: argument, resource: kindOf[match[1]], selects: selects}, err
	}
	match := byName.FindStringSubmatch(argument)
	return operand{source: argument, resource: kindOf[match[1]], name: match[2]}, nil
}

// find returns the object in a state, or nil.
func (s *scenario) find(o operand, state history.State) map[string]any {
	for _, object := range state.Objects(o.resource.Resource) {
		if isWitness(object) || o.name != "" && object.GetName() != o.name {
			continue
		}
		self := s.view(object)
		if o.selects == nil {
			return self
		}
		if ok, err := o.selects.isTrue(s.activation(state, self)); ok && err == nil {
			return self
		}
	}
	return nil
}

// resolve returns the name of an object that is there now.
func (s *scenario) resolve(o operand) (string, error) {
	if o.name != "" {
		return o.name, nil
	}
	now, err := s.now()
	if err != nil {
		return "", err
	}
	object := s.find(o, now)
	if object == nil {
		return "", fmt.Errorf("there is no %s\nthis is there:\n%s", o.source, describe(now))
	}
	return (&unstructured.Unstructured{Object: object}).GetName(), nil
}

// api returns what talks to the API server about an object's resource.
func (s *scenario) api(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	if resource == kindOf["namespace"] {
		return s.client.Resource(resource)
	}
	return s.client.Resource(resource).Namespace(s.namespace)
}
