package clusterroleaggregation

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
)

// sources returns the plain roles whose rules come together in an aggregated one: those that it
// selects, and in place of each aggregated role among them the sources of that. Each comes once,
// where it is met first. It ends whichever roles select each other, and asks of none twice whom it
// selects. Without circles, and if no role has two selectors, the order is that in which the original
// has the rules.
func sources(
	role *rbacv1.ClusterRole, selected func(*rbacv1.ClusterRole) []*rbacv1.ClusterRole,
) (found []*rbacv1.ClusterRole) {
	met := sets.New(role.Name)
	var gather func(*rbacv1.ClusterRole)
	gather = func(from *rbacv1.ClusterRole) {
		for _, next := range selected(from) {
			if met.Has(next.Name) {
				continue
			}
			met.Insert(next.Name)
			if isAggregated(next) {
				gather(next)
			} else {
				found = append(found, next)
			}
		}
	}
	gather(role)
	return found
}

// decide returns the rules that an aggregated role is to have, never nil, and whether it has
// others.
func decide(role *rbacv1.ClusterRole, sources []*rbacv1.ClusterRole) (rules []rbacv1.PolicyRule, differ bool) {
	rules = []rbacv1.PolicyRule{}
	has := sets.New[string]()
	for _, source := range sources {
		for _, rule := range source.Rules {
			if text := inWords(rule); !has.Has(text) {
				has.Insert(text)
				rules = append(rules, rule)
			}
		}
	}
	return rules, !equality.Semantic.DeepEqual(rules, role.Rules)
}

// inWords returns a text that two rules have in common if they are equal, and only then. A list
// that is empty is equal to one that is not there; the order within a list counts.
func inWords(rule rbacv1.PolicyRule) string {
	return fmt.Sprintf("%q", [][]string{
		rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames, rule.NonResourceURLs,
	})
}
