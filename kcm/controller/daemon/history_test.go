package daemon

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

func revisionNames(revisions []*appsv1.ControllerRevision) string {
	var names []string
	for _, revision := range revisions {
		names = append(names, strings.TrimPrefix(revision.Name, "agent-"))
	}
	return strings.Join(names, " ")
}

// testRevisions returns one revision for each letter, numbered from one.
func testRevisions(letters string) (revisions []*appsv1.ControllerRevision) {
	for i, letter := range letters {
		revision := testRevision(string(letter), int64(i+1))
		revision.Data.Raw = []byte(strings.ToLower(string(letter)))
		revisions = append(revisions, revision)
	}
	return revisions
}

// going has one of them wait for a finalizer.
func going(revisions []*appsv1.ControllerRevision, letter string) []*appsv1.ControllerRevision {
	for _, revision := range revisions {
		if revisionHash(revision) == letter {
			revision.DeletionTimestamp = &metav1.Time{Time: testNow}
		}
	}
	return revisions
}

func TestSuperfluous(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		old   string
		limit int
		inUse string
		want  string
	}{
		"within the limit all stay":                        {"abc", 3, "", ""},
		"the oldest go first":                              {"abcd", 2, "", "a b"},
		"one in use stays, and the next goes in its place": {"abcd", 3, "a", "b"},
		"what is in use stays, though it is too much":      {"abcd", 1, "bcd", "a"},
		"with a limit of zero all go that are not in use":  {"abc", 0, "b", "a c"},
		"one in use that is young enough saves no other":   {"abcd", 2, "d", "a b"},
		"where nothing is old nothing goes":                {"", 2, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inUse := sets.New(strings.Split(tt.inUse, "")...)
			got := superfluous(testRevisions(tt.old), tt.limit, inUse)
			assert.Equal(t, tt.want, revisionNames(got), "of %q with a limit of %d, of which %q are in use", tt.old, tt.limit, tt.inUse)
		})
	}
	t.Run("what was given is not changed", func(t *testing.T) {
		t.Parallel()
		old := testRevisions("abc")
		superfluous(old, 0, sets.New("b"))
		assert.Equal(t, "a b c", revisionNames(old))
	})
}

func TestSortOut(t *testing.T) {
	t.Parallel()
	type result struct {
		current, duplicates, old string
		number                   int64
	}
	for name, tt := range map[string]struct {
		revisions []*appsv1.ControllerRevision
		want      result
	}{
		"the first revision has number one":                    {nil, result{number: 1}},
		"a new template comes after all others":                {testRevisions("abc"), result{old: "a b c", number: 4}},
		"the current one is no old one":                        {testRevisions("abx"), result{"x", "", "a b", 3}},
		"a template that returns comes after all others again": {testRevisions("xab"), result{"x", "", "a b", 4}},
		"of two with the template the last counts":             {testRevisions("xaX"), result{"X", "x", "a", 3}},
		"one that goes counts less, though it is the last":     {going(testRevisions("xaX"), "X"), result{"x", "X", "a", 3}},
		"one that goes counts less, and is the first":          {going(testRevisions("xaX"), "x"), result{"X", "x", "a", 3}},
		"the only one counts, though it goes":                  {going(testRevisions("ax"), "x"), result{"x", "", "a", 2}},
		"an old one that goes has a number, and no place":      {going(testRevisions("xab"), "b"), result{"x", "", "a", 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := sortOut(tt.revisions, []byte("x"))
			got := result{duplicates: revisionNames(h.duplicates), old: revisionNames(h.old), number: h.number}
			if h.current != nil {
				got.current = revisionNames([]*appsv1.ControllerRevision{h.current})
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestTheRevisionsEndWhereTheNumbersEnd(t *testing.T) {
	t.Parallel()
	h := sortOut([]*appsv1.ControllerRevision{testRevision("a", math.MaxInt64)}, []byte("x"))
	assert.Equal(t, int64(math.MaxInt64), h.number, "the API server takes no number below zero")
}

func TestARevisionHoldsAPatchThatReplacesTheTemplate(t *testing.T) {
	t.Parallel()
	patch, err := templatePatch(&testSet().Spec.Template)
	require.NoError(t, err)
	assert.Equal(t, `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"agent"}},`+
		`"spec":{"containers":[{"image":"agent:1","name":"agent","resources":{}}]}}}}`, string(patch))
}

func TestARevisionOfAnOlderVersionIsRecognised(t *testing.T) {
	t.Parallel()
	patch, err := templatePatch(&testSet().Spec.Template)
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		data    string
		current bool
	}{
		"as this version writes it":       {string(patch), true},
		"as versions up to 1.33 wrote it": {strings.Replace(string(patch), `"metadata":{`, `"metadata":{"creationTimestamp":null,`, 1), true},
		"it has another template":         {strings.Replace(string(patch), "agent:1", "agent:2", 1), false},
		"somebody else has written it":    {`{"of":"somebody else"}`, false},
		"it is no object":                 {`7`, false},
		"there is nothing in it":          {``, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			revision := testRevision("x", 1)
			revision.Data.Raw = []byte(tt.data)
			assert.Equal(t, tt.current, sortOut([]*appsv1.ControllerRevision{revision}, patch).current != nil)
		})
	}
}
