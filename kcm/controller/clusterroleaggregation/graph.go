package clusterroleaggregation

import (
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// selectorsOf returns the selectors of an aggregated role, and none of a plain one. A role one of
// whose selectors cannot be read is a plain one: the API server takes no such role, and would
// refuse each write of one that it has from before it looked.
func selectorsOf(role *rbacv1.ClusterRole) []labels.Selector {
	if role.AggregationRule == nil {
		return nil
	}
	var all []labels.Selector
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil
		}
		all = append(all, selector)
	}
	return all
}

func isAggregated(role *rbacv1.ClusterRole) bool { return len(selectorsOf(role)) > 0 }

// anyRole is the term that every role has. No label is called so.
const anyRole = "*"

// terms returns what can be looked up of a role by its labels: for a=1 that is a=1, a and *.
func terms(of labels.Set) []string {
	all := []string{anyRole}
	for key, value := range of {
		all = append(all, key, key+"="+value)
	}
	return all
}

// needs returns the terms of one requirement of a selector: every role that the selector selects has
// exactly one of them. A label with its value is taken before one of several values, that before any
// value, and that before *, which all roles have. The answer is the same each time: the cache takes
// out what it has put in.
func needs(selector *metav1.LabelSelector) []string {
	if len(selector.MatchLabels) > 0 {
		key := slices.Min(slices.Collect(maps.Keys(selector.MatchLabels)))
		return []string{key + "=" + selector.MatchLabels[key]}
	}
	oneOf := []string{anyRole}
	for _, requirement := range selector.MatchExpressions {
		switch requirement.Operator {
		case metav1.LabelSelectorOpIn:
			var values []string
			for _, value := range requirement.Values {
				values = append(values, requirement.Key+"="+value)
			}
			slices.Sort(values)
			return slices.Compact(values)
		case metav1.LabelSelectorOpExists:
			oneOf = []string{requirement.Key}
		}
	}
	return oneOf
}

// The indexes of the informer of ClusterRoles.
const (
	// byTerm has all roles by their terms.
	byTerm = "term"
	// byNeed has aggregated roles by the terms that their selectors need.
	byNeed = "need"
)

// graph finds out which roles select which, without a look at those that have nothing to do with
// it. What it returns is the cache's, and not to be changed.
type graph struct {
	indexer cache.Indexer
}

// newGraph adds the indexes to the informer unless they are there already.
func newGraph(informer cache.SharedIndexInformer) graph {
	controller.AddIndex(informer, byTerm, func(obj any) ([]string, error) {
		return terms(obj.(*rbacv1.ClusterRole).Labels), nil
	})
	controller.AddIndex(informer, byNeed, func(obj any) ([]string, error) {
		var all []string
		if rule := obj.(*rbacv1.ClusterRole).AggregationRule; rule != nil {
			for i := range rule.ClusterRoleSelectors {
				all = append(all, needs(&rule.ClusterRoleSelectors[i])...)
			}
		}
		return all, nil
	})
	return graph{informer.GetIndexer()}
}

func (g graph) find(index, term string) []*rbacv1.ClusterRole {
	found, _ := g.indexer.ByIndex(index, term) // an error says that there is no such index
	roles := make([]*rbacv1.ClusterRole, 0, len(found))
	for _, obj := range found {
		roles = append(roles, obj.(*rbacv1.ClusterRole))
	}
	return roles
}

// selection returns a function that tells which roles a role selects: first those of its first
// selector, by name. Of a selector that it was asked for before it tells nothing: who goes from
// role to role, as sources does, has met these roles, or is about to. So a thousand roles that
// all select everything cost one look at everything.
func (g graph) selection() func(*rbacv1.ClusterRole) []*rbacv1.ClusterRole {
	told := sets.New[string]()
	return func(role *rbacv1.ClusterRole) (selected []*rbacv1.ClusterRole) {
		for i, selector := range selectorsOf(role) {
			if text := selector.String(); !told.Has(text) {
				told.Insert(text)
				oneOf := needs(&role.AggregationRule.ClusterRoleSelectors[i])
				selected = append(selected, g.matching(selector, oneOf)...)
			}
		}
		return selected
	}
}

// matching returns the roles that a selector selects, by name.
func (g graph) matching(selector labels.Selector, oneOf []string) (found []*rbacv1.ClusterRole) {
	for _, term := range oneOf {
		for _, role := range g.find(byTerm, term) {
			if selector.Matches(labels.Set(role.Labels)) {
				found = append(found, role)
			}
		}
	}
	slices.SortFunc(found, func(a, b *rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// dependents returns the names of the aggregated roles that select a role which has one of these
// sets of labels, of those that select one of them, and so on. A role that was found is not looked
// at again, so a thousand roles that all select each other cost one look at each.
func (g graph) dependents(labelSets ...map[string]string) []string {
	found, asked := sets.New[string](), sets.New[string]()
	candidates := map[string][]*rbacv1.ClusterRole{} // by the term that they need: who was not found yet
	for ; len(labelSets) > 0; labelSets = labelSets[1:] {
		of := labels.Set(labelSets[0])
		if asked.Has(of.String()) {
			continue
		}
		asked.Insert(of.String())
		for _, term := range terms(of) {
			left, known := candidates[term]
			if !known {
				left = g.find(byNeed, term)
			}
			candidates[term] = slices.DeleteFunc(left, func(role *rbacv1.ClusterRole) bool {
				if !found.Has(role.Name) && selects(role, of) {
					found.Insert(role.Name)
					labelSets = append(labelSets, role.Labels)
				}
				return found.Has(role.Name)
			})
		}
	}
	return sets.List(found)
}

// selects tells whether one of a role's selectors selects roles with such labels.
func selects(role *rbacv1.ClusterRole, of labels.Set) bool {
	return slices.ContainsFunc(selectorsOf(role), func(s labels.Selector) bool { return s.Matches(of) })
}
