package validation

import (
	"fmt"
	"math/rand/v2"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// someRole draws a role, plain or aggregated, in the place of the one that is there. It may also go.
func someRole(r *rand.Rand) deed {
	role := &rbacv1.ClusterRole{ObjectMeta: named(r, fmt.Sprint("role-", r.IntN(6)))}
	role.Namespace, role.Finalizers = "", pick(r, nil, nil, nil, []string{"example.com/held"})
	role.Rules = several(r, 3, oneRule(r))
	if r.IntN(2) == 0 {
		role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: several(r, 4, oneSelector(r))}
	}
	return mayGoAgain(r, role)
}

// oneRule draws rules, of which each role may have some twice.
func oneRule(r *rand.Rand) func() rbacv1.PolicyRule {
	return func() rbacv1.PolicyRule {
		if r.IntN(5) == 0 {
			return rbacv1.PolicyRule{NonResourceURLs: []string{"/healthz"}, Verbs: []string{""}}
		}
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{pick(r, "pods", "pods", "secrets")},
			Verbs: []string{pick(r, "get", "get", "list", "*")}, ResourceNames: pick(r, nil, nil, []string{}, []string{""})}
	}
}

// oneSelector draws selectors of roles, some of which select all, and some what another one does.
func oneSelector(r *rand.Rand) func() metav1.LabelSelector {
	return func() metav1.LabelSelector {
		key := pick(r, "app", "app", "service.kubernetes.io/headless")
		selector := metav1.LabelSelector{MatchLabels: pick(r, nil, nil, map[string]string{key: pick(r, "", "web")})}
		selector.MatchExpressions = several(r, 3, func() metav1.LabelSelectorRequirement {
			needed := metav1.LabelSelectorRequirement{Key: key,
				Operator: pick[metav1.LabelSelectorOperator](r, "In", "NotIn", "Exists", "DoesNotExist")}
			if needed.Operator == metav1.LabelSelectorOpIn || needed.Operator == metav1.LabelSelectorOpNotIn {
				needed.Values = pick(r, []string{"web"}, []string{"", "web", "web"})
			}
			return needed
		})
		return selector
	}
}
