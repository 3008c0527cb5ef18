package endpointslice

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// limit is how many endpoints a slice has at most in these tests.
const limit = 4

var owner = metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: "web", UID: "web"}

// pod returns the endpoint of a pod with a name such as "a", or "a!" if it is not ready.
func pod(name string) discoveryv1.Endpoint {
	name, notReady := strings.CutSuffix(name, "!")
	return discoveryv1.Endpoint{
		Addresses:  []string{"10.0.0." + name},
		Conditions: discoveryv1.EndpointConditions{Ready: new(!notReady)},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: name},
	}
}

func podsNamed(names string) []discoveryv1.Endpoint {
	var endpoints []discoveryv1.Endpoint
	for _, name := range strings.Fields(names) {
		endpoints = append(endpoints, pod(name))
	}
	return endpoints
}

// group returns what has been, as in "1: a b c; 2: d", and what is to be, as in "a b".
func group(existing, wanted string) Group {
	g := Group{
		Template: &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			GenerateName: "web-", Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{owner}}},
		Wanted: podsNamed(wanted),
	}
	for _, text := range strings.FieldsFunc(existing, func(r rune) bool { return r == ';' }) {
		name, names, _ := strings.Cut(strings.TrimSpace(text), ":")
		g.Existing = append(g.Existing, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1",
				Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{owner}},
			Endpoints: podsNamed(names),
		})
	}
	return g
}

// inWords returns a plan as text: "update 1: a b; create 1; delete 2". New slices have only as many
// endpoints as it says, since which ones they are does not matter.
func inWords(plan Plan) string {
	var words []string
	contents := func(slice *discoveryv1.EndpointSlice) string {
		var names []string
		for _, endpoint := range slice.Endpoints {
			name := endpoint.TargetRef.Name
			if !*endpoint.Conditions.Ready {
				name += "!"
			}
			names = append(names, name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	for _, slice := range plan.Update {
		words = append(words, fmt.Sprintf("update %s: %s", slice.Name, contents(slice)))
	}
	for _, slice := range plan.Delete {
		words = append(words, "delete "+slice.Name)
	}
	for _, slice := range plan.Create {
		words = append(words, fmt.Sprintf("create %d", len(slice.Endpoints)))
	}
	slices.Sort(words)
	return strings.Join(words, "; ")
}

// endpoints counts those of several slices.
func endpoints(of []*discoveryv1.EndpointSlice) (n int) {
	for _, slice := range of {
		n += len(slice.Endpoints)
	}
	return n
}

func TestPack(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct{ existing, wanted, want string }{
		"nothing is written where nothing has changed":                    {"1: a b; 2: c", "c b a", ""},
		"the first pods get a slice":                                      {"", "a b", "create 2"},
		"more pods than a slice may have get several":                     {"", "a b c d e f", "create 2; create 4"},
		"a pod that changes is changed where it is":                       {"1: a b; 2: c d", "a b c! d", "update 2: c! d"},
		"a pod that has gone leaves its slice":                            {"1: a b; 2: c d", "a b c", "update 2: c"},
		"a slice that is empty is deleted":                                {"1: a b; 2: c", "a b", "delete 2"},
		"a new pod goes into a slice that is not full":                    {"1: a b c d; 2: e", "a b c d e f", "update 2: e f"},
		"of slices with room it goes into the fullest":                    {"1: a; 2: b c; 3: d", "a b c d e", "update 2: b c e"},
		"new pods go together where there is room for all":                {"1: a b c; 2: d", "a b c d e f g", "update 2: d e f g"},
		"where there is no room for all, they get a slice of their own":   {"1: a b c; 2: d e f", "a b c d e f g h", "create 2"},
		"a slice that is written anyway is filled before another":         {"1: a b c; 2: d e", "a b c d f", "update 2: d f"},
		"of slices that are written the fullest is filled first":          {"1: a b; 2: c d e", "a! b c! d e f", "update 1: a! b; update 2: c! d e f"},
		"a slice that has become empty is filled instead of another":      {"1: a b c; 2: d", "a b c e", "update 2: e"},
		"what does not fit into the written ones goes on":                 {"1: a b c d; 2: e", "a! b c d e f g", "update 1: a! b c d; update 2: e f g"},
		"slices with room are not packed together without need":           {"1: a; 2: b; 3: c", "a b c", ""},
		"an endpoint that is in two slices stays in one":                  {"1: a b; 2: a c", "a b c", "update 2: c"},
		"a slice that was filled beyond the limit is left alone":          {"1: a b c d e", "a b c d e", ""},
		"a slice that is over the limit takes no more when it is written": {"1: a b c d e f", "a! b c d e g", "create 1; update 1: a! b c d e"},
		"an endpoint that is wanted twice is there once":                  {"1: b", "a b a", "update 1: a b"},
		"an empty slice is filled to the limit":                           {"1: ", "a b c d", "update 1: a b c d"},
		"four new pods are a slice of their own":                          {"1: a", "a b c d e", "create 4"},
		"an empty slice is filled before another is written":              {"1: ; 2: a b", "a b c", "update 1: c"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, inWords(group(test.existing, test.wanted).Pack(limit)),
				"there is %q, with at most %d in each, and there is to be %q", test.existing, limit, test.wanted)
		})
	}
	t.Run("of more than fit into one slice the rest goes into one that has room", func(t *testing.T) {
		t.Parallel()
		plan := group("1: a", "a b c d e f").Pack(limit)
		assert.Equal(t, "new slices: 1, with 4; written: 1, with 2", fmt.Sprintf("new slices: %d, with %d; written: %d, with %d",
			len(plan.Create), endpoints(plan.Create), len(plan.Update), endpoints(plan.Update)),
			"there is \"1: a\", with at most 4 in each, and there is to be \"a b c d e f\"")
	})
	t.Run("a slice whose labels are wrong is written", func(t *testing.T) {
		t.Parallel()
		g := group("1: a", "a")
		g.Template.Labels = map[string]string{"app": "web", "team": "blue"}
		plan := g.Pack(limit)
		require.Equal(t, "update 1: a", inWords(plan))
		assert.Equal(t, g.Template.Labels, plan.Update[0].Labels)
	})
	t.Run("slices of the cache are not changed", func(t *testing.T) {
		t.Parallel()
		g := group("1: a b; 2: c", "a! c d")
		before := []*discoveryv1.EndpointSlice{g.Existing[0].DeepCopy(), g.Existing[1].DeepCopy()}
		g.Pack(limit)
		assert.Equal(t, before, g.Existing)
	})
	t.Run("what is added and removed is counted", func(t *testing.T) {
		t.Parallel()
		plan := group("1: a b; 2: c", "a! d e").Pack(limit)
		assert.Equal(t, "added 2, removed 2", fmt.Sprintf("added %d, removed %d", plan.Added, plan.Removed))
	})
}

// after returns the slices that there are when a plan was carried out.
func after(plan Plan, next *int) []*discoveryv1.EndpointSlice {
	all := slices.Concat(plan.Unchanged, plan.Update)
	for _, slice := range plan.Create {
		*next++
		slice.Name = fmt.Sprint("new-", *next)
		all = append(all, slice)
	}
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func TestPackInRounds(t *testing.T) {
	t.Parallel()
	t.Run("whatever happens, each endpoint is in exactly one slice, and a second look writes nothing", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			limit := rapid.IntRange(1, 5).Draw(t, "limit")
			some := rapid.SliceOfDistinct(rapid.IntRange(0, 15), rapid.ID[int])
			var existing []*discoveryv1.EndpointSlice
			next := 0
			for range rapid.IntRange(1, 10).Draw(t, "rounds") {
				g := group("", "")
				g.Existing = existing
				want := map[string]bool{}
				for _, n := range some.Draw(t, "pods") {
					ready := rapid.Bool().Draw(t, "ready")
					name := fmt.Sprint(n)
					want[name] = ready
					if !ready {
						name += "!"
					}
					g.Wanted = append(g.Wanted, pod(name))
				}
				plan := g.Pack(limit)
				existing = after(plan, &next)
				has := map[string]bool{}
				for _, slice := range existing {
					require.LessOrEqual(t, len(slice.Endpoints), limit, "endpoints in slice %s", slice.Name)
					require.NotEmpty(t, slice.Endpoints, "slice %s", slice.Name)
					for _, endpoint := range slice.Endpoints {
						require.NotContains(t, has, endpoint.TargetRef.Name, "it is in two slices")
						has[endpoint.TargetRef.Name] = *endpoint.Conditions.Ready
					}
				}
				require.Equal(t, want, has)
				g.Existing = existing
				require.Empty(t, inWords(g.Pack(limit)), "a second look at the same has something to write")
			}
		})
	})
}
