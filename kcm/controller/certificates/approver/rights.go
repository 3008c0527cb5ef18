package approver

import (
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// watchRights has requests looked at again when RBAC gives somebody one of the two
// rights: a ClusterRole comes to hold it, or a ClusterRoleBinding gives such a role to
// others. Requests are in no namespace, so a RoleBinding gives no right to them. Who it
// is does not matter, nor whether it is true: the API server will say. It may not know
// yet, and then it is asked again 200 ms later.
func (c *Controller) watchRights(roles, bindings cache.SharedIndexInformer) {
	controller.Handle(roles, controller.Handlers[*rbacv1.ClusterRole]{
		Add:    func(role *rbacv1.ClusterRole) { c.holds(nil, role.Rules) },
		Update: func(old, role *rbacv1.ClusterRole) { c.holds(old.Rules, role.Rules) },
	})
	controller.Handle(bindings, controller.Handlers[*rbacv1.ClusterRoleBinding]{
		Add: c.gives,
		Update: func(old, binding *rbacv1.ClusterRoleBinding) {
			if slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return !slices.Contains(old.Subjects, s) }) {
				c.gives(binding)
			}
		},
	})
}

// holds has requests looked at again if rules hold a right that the former ones did not.
func (c *Controller) holds(former, rules []rbacv1.PolicyRule) {
	gained := slices.ContainsFunc([]string{selfNodeClient, nodeClient}, func(subresource string) bool {
		return grants(rules, subresource) && !grants(former, subresource)
	})
	if !gained {
		return
	}
	c.refusals.Given()
	all, err := c.cached.List(labels.Everything())
	if err != nil {
		return // the cache never fails
	}
	for _, csr := range all {
		c.changed(csr)
	}
}

// gives has requests looked at again if a binding gives a right. A role that the cache
// does not have gives none until it comes.
func (c *Controller) gives(binding *rbacv1.ClusterRoleBinding) {
	if role, err := c.roles.Get(binding.RoleRef.Name); err == nil {
		c.holds(nil, role.Rules)
	}
}

// grants tells whether rules hold a right to a certificate.
func grants(rules []rbacv1.PolicyRule, subresource string) bool {
	granted, _ := validation.Covers(rules, []rbacv1.PolicyRule{{
		APIGroups: []string{certificatesv1.GroupName},
		Resources: []string{resource + "/" + subresource},
		Verbs:     []string{"create"},
	}})
	return granted
}
