package resourcequota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// scopes are those that an object is in, with the values that a selector may ask
// for. A scope that is missing does not apply to the object, and nothing about
// it is true.
type scopes map[corev1.ResourceQuotaScope][]string

// present is the value of a scope that has no values.
var present = []string{""}

// either puts an object into one of two scopes that exclude each other.
func (in scopes) either(first bool, yes, no corev1.ResourceQuotaScope) {
	if first {
		in[yes] = present
	} else {
		in[no] = present
	}
}

// selectors returns everything that a quota asks of objects: each has to be true.
// A scope by itself asks whether it exists.
func selectors(spec *corev1.ResourceQuotaSpec) []corev1.ScopedResourceSelectorRequirement {
	var all []corev1.ScopedResourceSelectorRequirement
	for _, scope := range spec.Scopes {
		all = append(all, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if spec.ScopeSelector != nil {
		all = append(all, spec.ScopeSelector.MatchExpressions...)
	}
	return all
}

// within returns what an object uses of quotas that ask this of it.
func (c charge) within(asked []corev1.ScopedResourceSelectorRequirement) corev1.ResourceList {
	if !c.scopes.match(asked) {
		return nil
	}
	return c.used
}

// match tells whether all that a quota asks is true of an object in these scopes.
// An object that has several values in a scope is as asked if it would be so with
// one of them alone.
func (in scopes) match(asked []corev1.ScopedResourceSelectorRequirement) bool {
	for _, a := range asked {
		values, applies := in[a.ScopeName]
		listed := func(value string) bool { return slices.Contains(a.Values, value) }
		unlisted := func(value string) bool { return !listed(value) }
		var isTrue bool
		switch a.Operator {
		case corev1.ScopeSelectorOpExists:
			isTrue = len(values) > 0
		case corev1.ScopeSelectorOpDoesNotExist:
			isTrue = len(values) == 0
		case corev1.ScopeSelectorOpIn:
			isTrue = slices.ContainsFunc(values, listed)
		case corev1.ScopeSelectorOpNotIn:
			isTrue = len(values) == 0 || slices.ContainsFunc(values, unlisted)
		}
		if !applies || !isTrue {
			return false
		}
	}
	return true
}
