package clusterroleaggregation

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestRolesHaveTheRulesOfThoseThatTheySelect(t *testing.T) {
	t.Parallel()
	hand := func(verbs ...string) func(*rbacv1.ClusterRole) {
		return func(role *rbacv1.ClusterRole) { role.Rules = rules(verbs...) }
	}
	for _, test := range []struct {
		behaviour, situation string
		there                []*rbacv1.ClusterRole
		happens              func(c *cluster)
		want                 string
	}{
		{"a rule that is added reaches all whose rule it is then", "system:view is to give list as well", bundled(),
			func(c *cluster) { c.edit("system:view", hand("get", "list")) },
			"admin: create get list bind; edit: create get list; view: get list"},
		{"a rule that is taken out goes everywhere", "system:edit is to give nothing", bundled(),
			func(c *cluster) { c.edit("system:edit", hand()) },
			"admin: get bind; edit: get"},
		{"a role that comes is added by name", "a role comes that has the label of edit, and is called crds", bundled(),
			func(c *cluster) { c.has(labelled(role("crds", "watch"), "to-edit=true")) },
			"admin: watch create get bind; edit: watch create get"},
		{"a role that goes takes its rules along", "system:view goes", bundled(),
			func(c *cluster) { assert.NoError(c.t, c.client.Tracker().Delete(clusterRoles, "", "system:view")) },
			"admin: create bind; edit: create; view: nothing"},
		{"a label that is taken off takes the rules along", "system:view has no label any more", bundled(),
			func(c *cluster) { c.edit("system:view", func(role *rbacv1.ClusterRole) { role.Labels = nil }) },
			"admin: create bind; edit: create; view: nothing"},
		{"a role that selects others from now on has their rules", "view selects the label of edit", bundled(),
			func(c *cluster) {
				c.edit("view", func(role *rbacv1.ClusterRole) { role.AggregationRule = selecting(role, "to-edit=true").AggregationRule })
			},
			"admin: create bind; edit: create; view: create"},
		{"what a user writes into an aggregated role is put right", "a user writes delete into edit", bundled(),
			func(c *cluster) { c.edit("edit", hand("delete")) },
			"edit: create get"},
		{"a role that is applied anew without rules takes none from others", "a user applies edit with rules: []", bundled(),
			func(c *cluster) { c.edit("edit", hand()) },
			"edit: create get"},
		{"a role that selects nothing keeps nothing that a user writes", "a user writes delete into a role whose label no role has",
			[]*rbacv1.ClusterRole{selecting(role("a"), "to=a")},
			func(c *cluster) { c.edit("a", hand("delete")) },
			"a: nothing"},
		{"of roles that select each other none keeps what no role gives any more", "a and b select each other, and x, which gives get to a, goes",
			[]*rbacv1.ClusterRole{
				labelled(selecting(role("a"), "to=a"), "to=b"), labelled(selecting(role("b"), "to=b"), "to=a"),
				labelled(role("x", "get"), "to=a"), labelled(role("y", "list"), "to=b"),
			},
			func(c *cluster) { assert.NoError(c.t, c.client.Tracker().Delete(clusterRoles, "", "x")) },
			"a: list; b: list"},
		{"a plain role that nobody selects is nothing to the loop", "a role without labels comes", bundled(),
			func(c *cluster) { c.has(role("x", "delete")) },
			"no request"},
		{"an aggregated role that becomes a plain one keeps its rules and gives them", "the aggregationRule is taken out of view, and system:view goes", bundled(),
			func(c *cluster) {
				c.edit("view", func(role *rbacv1.ClusterRole) { role.AggregationRule = nil })
				assert.NoError(c.t, c.client.Tracker().Delete(clusterRoles, "", "system:view"))
			},
			"no request"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			seen := told(t, test.there, func(c *cluster) {
				c.rests()
				test.happens(c)
			})
			assert.Equal(t, test.want, sorted(seen), "what is asked to be applied: %s", test.situation)
		})
	}
}

// sorted puts requests into the order of the names of roles.
func sorted(story string) string {
	all := strings.Split(story, "; ")
	slices.Sort(all)
	return strings.Join(all, "; ")
}

func TestEachRoleIsWrittenOnceAtTheBeginning(t *testing.T) {
	t.Parallel()
	seen := told(t, bundled(), func(c *cluster) {})
	assert.Equal(t, "admin: create get bind; edit: create get; view: get", sorted(seen), "what is asked to be applied: admin, edit and view have no rules yet")
}

func TestAManagerThatIsStartedAnewWritesNothingThatIsThere(t *testing.T) {
	t.Parallel()
	there := bundled()
	there[0].Rules, there[1].Rules, there[2].Rules = rules("create", "get", "bind"), rules("create", "get"), rules("get")
	assert.Equal(t, "no request", told(t, there, func(c *cluster) {}))
}

// few are a plain role and one that selects it.
func few() []*rbacv1.ClusterRole {
	return []*rbacv1.ClusterRole{labelled(role("x", "get"), "to=a"), selecting(role("a"), "to=a")}
}

func TestRulesAreAppliedAsTheOriginalAppliesThem(t *testing.T) {
	t.Parallel()
	var c *cluster
	told(t, few(), func(running *cluster) { c = running })
	assert.Equal(t, []string{"application/apply-patch+yaml, as clusterrole-aggregation-controller, by force: true"}, c.manners)
}

func TestRulesAreForTheRoleThatWasLookedAt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, situation string
		faster               func(c *cluster)
		want                 string
	}{
		{"a role that has become a plain one meanwhile keeps the rules that its user has given it", "its user takes the aggregationRule out and writes delete",
			func(c *cluster) {
				c.edit("a", func(role *rbacv1.ClusterRole) { role.AggregationRule, role.Rules = nil, rules("delete") })
			}, "delete"},
		{"another role of the name keeps its rules", "it is deleted, and a plain one of its name is created",
			func(c *cluster) {
				c.edit("a", func(found *rbacv1.ClusterRole) { *found = *role("a", "delete"); found.UID = "another" })
			}, "delete"},
		{"a role that has a note meanwhile gets its rules all the same", "its user adds a note",
			func(c *cluster) {
				c.edit("a", func(role *rbacv1.ClusterRole) { role.Annotations = map[string]string{"note": "x"} })
			}, "get"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			told(t, nil, func(c *cluster) {
				first := true
				c.before = func(string) {
					if first {
						first = false
						test.faster(c)
					}
				}
				c.has(few()...)
				c.rests()
				assert.Equal(t, test.want, c.may("a"), "the rules of a role in the end: before its rules are applied, %s", test.situation)
			})
		})
	}
	t.Run("a role that has gone meanwhile does not come again", func(t *testing.T) {
		t.Parallel()
		told(t, nil, func(c *cluster) {
			c.before = func(string) { _ = c.client.Tracker().Delete(clusterRoles, "", "a") }
			c.has(few()...)
			c.rests()
			_, err := c.client.Tracker().Get(clusterRoles, "", "a")
			assert.True(t, apierrors.IsNotFound(err), "a role was deleted before its rules were applied, and then there is: %v", err)
		})
	})
}

func TestARequestMayBeRefused(t *testing.T) {
	t.Parallel()
	roles := clusterRoles.GroupResource()
	for behaviour, refusal := range map[string]error{
		"what fails is asked again":                  apierrors.NewInternalError(errors.New("the API server is busy")),
		"what is forbidden is asked again":           apierrors.NewForbidden(roles, "a", errors.New("not now")),
		"what a policy finds invalid is asked again": apierrors.NewInvalid(rbacv1.SchemeGroupVersion.WithKind("ClusterRole").GroupKind(), "a", nil),
		"what is in conflict is asked again":         apierrors.NewConflict(roles, "a", errors.New("not now")),
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			tries := 0
			told(t, nil, func(c *cluster) {
				c.refuse = func(string) error {
					if tries++; tries <= 3 {
						return refusal
					}
					return nil
				}
				c.has(few()...)
				c.rests()
				assert.Equal(t, "get", c.may("a"), "the rules of a role: to the first three requests the API server says: %v", refusal)
			})
			assert.Equal(t, 4, tries, "requests: to the first three the API server says: %v", refusal)
		})
	}
	t.Run("a role that cannot be written keeps nothing from those that select it", func(t *testing.T) {
		t.Parallel()
		told(t, nil, func(c *cluster) {
			c.refuse = func(name string) error {
				if name == "edit" {
					return apierrors.NewForbidden(roles, name, errors.New("by a policy"))
				}
				return nil
			}
			c.has(bundled()...)
			c.rests()
			assert.Equal(t, "create get bind", c.may("admin"), "the rules of admin, which selects edit, whose rules nobody may write")
		})
	})
}
