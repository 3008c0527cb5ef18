package clusterroleaggregation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
)

// graphOf is that of a cache which has these roles.
func graphOf(t require.TestingT, roles ...*rbacv1.ClusterRole) graph {
	informer := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0).Rbac().V1().ClusterRoles().Informer()
	g := newGraph(informer)
	for _, role := range roles {
		require.NoError(t, informer.GetStore().Add(role))
	}
	return g
}

func TestASelectorFindsItsRoles(t *testing.T) {
	t.Parallel()
	var seven []*rbacv1.ClusterRole
	for name, of := range map[string]string{
		"v": "to=view", "vc": "to=view kind=core", "e": "to=edit", "a": "kind=apps", "b": "kind=apps", "d": "kind=apps", "n": "",
	} {
		seven = append(seven, labelled(role(name), of))
	}
	type requirements = []metav1.LabelSelectorRequirement
	has := func(key string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpExists}
	}
	lacks := func(key string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist}
	}
	in := func(key string, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}
	}
	notIn := func(key string, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: values}
	}
	two := map[string]string{"to": "view", "kind": "core"}
	for _, test := range []struct {
		behaviour    string
		labels       map[string]string
		requirements requirements
		selects      string
		others       int // that may be found, too
	}{
		{"a label finds those that have it", map[string]string{"to": "view"}, nil, "v vc", 0},
		{"of two labels one is enough", two, nil, "vc", 1},
		{"a role has one of several values", nil, requirements{in("to", "view", "edit")}, "v vc e", 0},
		{"a value that is named twice is looked up once", nil, requirements{in("to", "view", "view")}, "v vc", 0},
		{"a key finds those that have any value", nil, requirements{has("to")}, "v vc e", 0},
		{"a value tells more than a key", nil, requirements{in("to", "view"), has("kind")}, "vc", 1},
		{"also if the key comes first", nil, requirements{has("kind"), in("to", "view")}, "vc", 1},
		{"what must not be there helps nothing", nil, requirements{lacks("to")}, "a b d n", 3},
		{"nor does a value that must not be there", nil, requirements{notIn("to", "edit")}, "v vc a b d n", 1},
		{"beside it a key does", nil, requirements{has("kind"), notIn("to", "view")}, "a b d", 1},
		{"a selector of everything finds everything", nil, nil, "v vc e a b d n", 0},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			g := graphOf(t, seven...)
			selector := &metav1.LabelSelector{MatchLabels: test.labels, MatchExpressions: test.requirements}
			var found []string
			terms := needs(selector)
			for _, term := range terms {
				found = append(found, strings.Fields(names(g.find(byTerm, term)))...)
			}
			slices.Sort(found)
			for _, name := range strings.Fields(test.selects) {
				same := slices.DeleteFunc(slices.Clone(found), func(other string) bool { return other != name })
				assert.Len(t, same, 1, "how often %s is found, which %s selects: under %q are %v",
					name, metav1.FormatLabelSelector(selector), terms, found)
			}
			assert.LessOrEqual(t, len(found), len(strings.Fields(test.selects))+test.others,
				"%s selects %s; under %q are %v", metav1.FormatLabelSelector(selector), test.selects, terms, found)
		})
	}
	t.Run("the answer is the same each time", func(t *testing.T) {
		t.Parallel()
		selector := &metav1.LabelSelector{MatchLabels: two}
		for range 100 {
			assert.Equal(t, needs(selector), needs(selector.DeepCopy()), "the cache asks when it files, and again when it takes out")
		}
	})
}

var (
	keys   = rapid.SampledFrom([]string{"a", "b", "c"})
	values = rapid.SampledFrom([]string{"1", "2", ""})
)

func drawSelector(t *rapid.T) metav1.LabelSelector {
	selector := metav1.LabelSelector{MatchLabels: rapid.MapOfN(keys, values, 0, 2).Draw(t, "labels to match")}
	for range rapid.IntRange(0, 2).Draw(t, "expressions") {
		requirement := metav1.LabelSelectorRequirement{
			Key: keys.Draw(t, "key"),
			Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{
				metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
			}).Draw(t, "operator"),
		}
		if requirement.Operator == metav1.LabelSelectorOpIn || requirement.Operator == metav1.LabelSelectorOpNotIn {
			requirement.Values = rapid.SliceOfN(values, 1, 3).Draw(t, "values")
		}
		selector.MatchExpressions = append(selector.MatchExpressions, requirement)
	}
	return selector
}

func TestARoleThatIsSelectedHasATermThatTheSelectorNeeds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		selector := drawSelector(t)
		parsed, err := metav1.LabelSelectorAsSelector(&selector)
		require.NoError(t, err)
		of := labels.Set(rapid.MapOfN(keys, values, 0, 3).Draw(t, "labels"))
		if parsed.Matches(of) {
			has := func(term string) bool { return slices.Contains(terms(of), term) }
			assert.True(t, slices.ContainsFunc(needs(&selector), has), "%q selects %v, needs %v, and finds %v", parsed, of, needs(&selector), terms(of))
		}
		assert.Equal(t, needs(&selector), needs(selector.DeepCopy()), "the cache asks twice")
	})
}

func TestWhatIsLookedUpIsWhatALookAtAllRolesWouldFind(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all []*rbacv1.ClusterRole
		for i := range rapid.IntRange(1, 6).Draw(t, "roles") {
			one := role(fmt.Sprintf("role-%d", i))
			one.Labels = rapid.MapOfN(keys, values, 0, 3).Draw(t, "labels")
			if rapid.Bool().Draw(t, "is aggregated") {
				one.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{drawSelector(t)}}
			}
			all = append(all, one)
		}
		g := graphOf(t, all...)
		for _, one := range all {
			var want []*rbacv1.ClusterRole
			for _, other := range all { // they are in the order of their names
				if selects(one, other.Labels) {
					want = append(want, other)
				}
			}
			assert.Equal(t, names(want), names(g.selection()(one)), "what %s selects", one.Name)
			assert.Equal(t, dependentsByLookingAtAll(all, one), strings.Join(g.dependents(one.Labels), " "), "whose rules depend on %s", one.Name)
		}
	})
}

// dependentsByLookingAtAll returns the names of those that select a role, of those that select one of these, and so on.
func dependentsByLookingAtAll(all []*rbacv1.ClusterRole, of *rbacv1.ClusterRole) string {
	depends := map[string]bool{}
	for range all {
		for _, by := range all {
			for _, one := range all {
				if (one.Name == of.Name || depends[one.Name]) && selects(by, one.Labels) {
					depends[by.Name] = true
				}
			}
		}
	}
	var names []string
	for _, one := range all {
		if depends[one.Name] {
			names = append(names, one.Name)
		}
	}
	return strings.Join(names, " ")
}

// countingIndexer counts the roles that an index was asked for.
type countingIndexer struct {
	cache.Indexer
	looks int
}

func (c *countingIndexer) ByIndex(name, value string) ([]any, error) {
	found, err := c.Indexer.ByIndex(name, value)
	c.looks += len(found)
	return found, err
}

func TestADependentIsLookedAtOnceHoweverManySelectIt(t *testing.T) {
	t.Parallel()
	for situation, one := range map[string]func(i int) *rbacv1.ClusterRole{
		"each selects everything": func(i int) *rbacv1.ClusterRole {
			return labelled(selecting(role(fmt.Sprintf("r%03d", i)), ""), fmt.Sprintf("own=r%03d", i))
		},
		"each selects all others by a label that they share": func(i int) *rbacv1.ClusterRole {
			return labelled(selecting(role(fmt.Sprintf("r%03d", i)), "to=all"), fmt.Sprintf("to=all own=r%03d", i))
		},
	} {
		var all []*rbacv1.ClusterRole
		for i := range 100 {
			all = append(all, one(i))
		}
		g := graphOf(t, all...)
		counting := &countingIndexer{Indexer: g.indexer}
		g.indexer = counting
		assert.Len(t, g.dependents(all[0].Labels), 100, "whose rules depend on one of them: %s", situation)
		assert.Equal(t, 100, counting.looks, "looks at 100 roles of which %s", situation)
	}
}

func TestOneSelectorIsLookedUpOnceOnTheWayFromRoleToRole(t *testing.T) {
	t.Parallel()
	var all []*rbacv1.ClusterRole
	for i := range 300 {
		all = append(all, selecting(role(fmt.Sprintf("everything-%d", i)), ""))
	}
	all = append(all, role("x", "get"))
	selected, looks := graphOf(t, all...).selection(), 0
	found := sources(all[0], func(by *rbacv1.ClusterRole) []*rbacv1.ClusterRole {
		them := selected(by)
		looks += len(them)
		return them
	})
	assert.Equal(t, "x", names(found))
	assert.Equal(t, len(all), looks, "roles that were looked at: 300 roles select everything")
}

func TestARoleWhoseSelectorsCannotBeReadIsAPlainOne(t *testing.T) {
	t.Parallel()
	for what, selector := range map[string]metav1.LabelSelector{
		"an operator that there is not":     {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "to", Operator: "Like", Values: []string{"view"}}}},
		"one of no values":                  {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "to", Operator: metav1.LabelSelectorOpIn}}},
		"a value that no label can have":    {MatchLabels: map[string]string{"to": "a view"}},
		"a key that no label can have":      {MatchLabels: map[string]string{"to the": "view"}},
		"a value where there is to be none": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "to", Operator: metav1.LabelSelectorOpExists, Values: []string{"view"}}}},
	} {
		odd := selecting(role("odd", "get"), "to=view")
		odd.AggregationRule.ClusterRoleSelectors = append(odd.AggregationRule.ClusterRoleSelectors, selector)
		odd.Labels = map[string]string{"to": "view"}
		g := graphOf(t, odd, selecting(role("a"), "to=view"))
		assert.False(t, isAggregated(odd), what)
		assert.Equal(t, "odd", names(sources(selecting(role("a"), "to=view"), g.selection())), "%s: whose rules another role has that selects it", what)
		assert.Equal(t, []string{"a"}, g.dependents(odd.Labels), what)
	}
	empty := role("empty", "get")
	empty.AggregationRule = &rbacv1.AggregationRule{}
	assert.False(t, isAggregated(empty), "a role that says it selects, and has no selector")
}
