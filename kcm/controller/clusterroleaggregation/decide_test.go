package clusterroleaggregation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	rbacv1 "k8s.io/api/rbac/v1"
	"pgregory.net/rapid"
)

// drawn are roles that select others: by their names, those that each selects in this order. The others are
// plain, and have a rule for their name.
type drawn map[string]string

func (d drawn) role(name string) *rbacv1.ClusterRole {
	if _, aggregated := d[name]; aggregated {
		return selecting(role(name), "")
	}
	return role(name, name)
}

func (d drawn) selected(by *rbacv1.ClusterRole) (all []*rbacv1.ClusterRole) {
	for _, name := range strings.Fields(d[by.Name]) {
		all = append(all, d.role(name))
	}
	return all
}

func names(roles []*rbacv1.ClusterRole) string {
	var all []string
	for _, role := range roles {
		all = append(all, role.Name)
	}
	return strings.Join(all, " ")
}

func TestARoleHasItsRulesFromPlainRoles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour string
		there     drawn
		of, want  string
	}{
		{"the plain roles that it selects are its sources", drawn{"a": "x y"}, "a", "x y"},
		{"a role that selects nothing has none", drawn{"a": ""}, "a", ""},
		{"in place of an aggregated role come its sources", drawn{"admin": "edit x", "edit": "view y", "view": "z"}, "admin", "z y x"},
		{"a source that is met twice comes where it is met first", drawn{"a": "b c", "b": "y x", "c": "x z"}, "a", "y x z"},
		{"a role that selects itself is not its own source", drawn{"a": "a x"}, "a", "x"},
		{"of two that select each other each has the sources of both", drawn{"a": "b x", "b": "a y"}, "a", "y x"},
		{"so has the other", drawn{"a": "b x", "b": "a y"}, "b", "x y"},
		{"a circle of three ends", drawn{"a": "b x", "b": "c y", "c": "a z"}, "b", "x z y"},
		{"a circle that no plain role belongs to has no sources", drawn{"a": "b", "b": "a"}, "a", ""},
		{"a circle behind an aggregated role is gone through once", drawn{"a": "b", "b": "c x", "c": "b y"}, "a", "y x"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, names(sources(test.there.role(test.of), test.there.selected)),
				"the plain roles whose rules %s has: these select those: %v", test.of, test.there)
		})
	}
}

func TestWithoutCirclesTheRulesAreThoseOfTheOriginalInItsOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.Permutation([]string{"a", "b", "c", "d", "e", "f", "g"}).Draw(t, "from the top")
		there := drawn{}
		for i, name := range all {
			if rapid.Bool().Draw(t, name+" is aggregated") {
				there[name] = strings.Join(someOf(t, all[i+1:]), " ")
			}
		}
		theirs := there.asTheOriginalHasThem(len(all))
		for name := range there {
			ours, _ := decide(role(name), sources(there.role(name), there.selected))
			assert.Equal(t, verbs(theirs[name]), verbs(ours), "the rules of %s: these select those: %v", name, there)
		}
	})
}

func TestInCirclesTheRulesAreWhatTheOriginalWouldHaveComeByWithoutAPast(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := []string{"a", "b", "c", "d", "e"}
		there := drawn{}
		for _, name := range all {
			if rapid.Bool().Draw(t, name+" is aggregated") {
				there[name] = strings.Join(someOf(t, all), " ")
			}
		}
		theirs := there.asTheOriginalHasThem(len(all))
		for name := range there {
			ours, _ := decide(role(name), sources(there.role(name), there.selected))
			assert.ElementsMatch(t, strings.Fields(verbs(theirs[name])), strings.Fields(verbs(ours)),
				"the rules of %s: these select those: %v", name, there)
		}
	})
}

func someOf(t *rapid.T, names []string) (some []string) {
	for _, name := range names {
		if rapid.Bool().Draw(t, "selects "+name) {
			some = append(some, name)
		}
	}
	slices.Sort(some)
	return some
}

// asTheOriginalHasThem starts with aggregated roles that have no rules, and has each copy what the selected
// ones have, as often as there are roles.
func (d drawn) asTheOriginalHasThem(rounds int) map[string][]rbacv1.PolicyRule {
	has := map[string][]rbacv1.PolicyRule{}
	for range rounds + 1 {
		for name := range d {
			var copied []rbacv1.PolicyRule
			for _, other := range d.selected(d.role(name)) {
				if other.Name == name {
					continue
				}
				from := other.Rules
				if isAggregated(other) {
					from = has[other.Name]
				}
				for _, rule := range from {
					if !slices.ContainsFunc(copied, func(r rbacv1.PolicyRule) bool { return r.Verbs[0] == rule.Verbs[0] }) {
						copied = append(copied, rule)
					}
				}
			}
			has[name] = copied
		}
	}
	return has
}

func TestRulesComeOnceAndInOrder(t *testing.T) {
	t.Parallel()
	url := rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz"}}
	for _, test := range []struct {
		behaviour, situation string
		has                  []rbacv1.PolicyRule
		sources              []*rbacv1.ClusterRole
		want                 string
	}{
		{"the rules of the first source come first", "it has none", nil, []*rbacv1.ClusterRole{role("x", "list", "get"), role("y", "create")}, "list get create"},
		{"a rule that two sources give comes once", "it has none", nil, []*rbacv1.ClusterRole{role("x", "get"), role("y", "create", "get")}, "get create"},
		{"nothing is written if it is so", "it has get and create", rules("get", "create"), []*rbacv1.ClusterRole{role("x", "get"), role("y", "create")}, "as it is"},
		{"the order counts", "it has create and get", rules("create", "get"), []*rbacv1.ClusterRole{role("x", "get"), role("y", "create")}, "get create"},
		{"what nobody gives goes", "it has delete", rules("delete"), []*rbacv1.ClusterRole{role("x", "get")}, "get"},
		{"without sources there are no rules", "it has delete", rules("delete"), nil, "nothing"},
		{"no rules are no rules", "it has a list that is empty", []rbacv1.PolicyRule{}, nil, "as it is"},
		{"an empty list in a rule is none", "it has the rule, and in it a list that is empty",
			[]rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz"}, Resources: []string{}}},
			[]*rbacv1.ClusterRole{{Rules: []rbacv1.PolicyRule{url}}}, "as it is"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			aggregated := role("a")
			aggregated.Rules = test.has
			rules, differ := decide(aggregated, test.sources)
			seen := "as it is"
			if differ {
				seen = verbs(rules)
			}
			assert.Equal(t, test.want, seen, "what is written into an aggregated role: %s", test.situation)
			assert.NotNil(t, rules, "nil is left out of what is sent")
		})
	}
}

func TestTwoRulesHaveATextInCommonOnlyIfTheyAreEqual(t *testing.T) {
	t.Parallel()
	base := rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	for difference, edit := range map[string]func(*rbacv1.PolicyRule){
		"a verb less":                         func(r *rbacv1.PolicyRule) { r.Verbs = []string{"get"} },
		"two verbs that are one with a space": func(r *rbacv1.PolicyRule) { r.Verbs = []string{"get list"} },
		"two verbs that are one with quotes":  func(r *rbacv1.PolicyRule) { r.Verbs = []string{`get" "list`} },
		"another order of verbs":              func(r *rbacv1.PolicyRule) { r.Verbs = []string{"list", "get"} },
		"no group":                            func(r *rbacv1.PolicyRule) { r.APIGroups = nil },
		"a name":                              func(r *rbacv1.PolicyRule) { r.ResourceNames = []string{"web"} },
		"a name that is a resource":           func(r *rbacv1.PolicyRule) { r.Resources, r.ResourceNames = nil, []string{"pods"} },
		"a URL":                               func(r *rbacv1.PolicyRule) { r.NonResourceURLs = []string{"/healthz"} },
	} {
		other := *base.DeepCopy()
		edit(&other)
		assert.NotEqual(t, inWords(base), inWords(other), difference)
	}
	same := *base.DeepCopy()
	same.ResourceNames, same.NonResourceURLs = []string{}, []string{}
	assert.Equal(t, inWords(base), inWords(same), "lists that are empty")
}

func TestAThousandRolesInARowAreGoneThrough(t *testing.T) {
	t.Parallel()
	row := drawn{}
	for i := range 1000 {
		row[fmt.Sprint(i)] = fmt.Sprint(i + 1)
	}
	assert.Equal(t, "1000", names(sources(row.role("0"), row.selected)))
}

func TestEachRoleIsGoneIntoOnce(t *testing.T) {
	t.Parallel()
	ladder := drawn{}
	for i := range 10 {
		below := fmt.Sprintf("a%d b%d", i+1, i+1)
		ladder[fmt.Sprintf("a%d", i)], ladder[fmt.Sprintf("b%d", i)] = below, below
	}
	t.Run("each role is gone into once, however many select it", func(t *testing.T) {
		t.Parallel()
		asked := 0
		found := sources(ladder.role("a0"), func(by *rbacv1.ClusterRole) []*rbacv1.ClusterRole {
			asked++
			return ladder.selected(by)
		})
		assert.Equal(t, "a10 b10", names(found), "the sources of a0: each of ten pairs selects both of the next")
		assert.Equal(t, 19, asked, "of how many roles it was asked whom they select: a0, and nine pairs")
	})
}
