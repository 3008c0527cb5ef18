package verdict

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tableOf is about one row, with these results.
func tableOf(beside bool, results map[string]Result, managers ...string) *Table {
	t := New(managers, []string{"it works"})
	t.Beside = beside
	for manager, r := range results {
		t.Put(manager, "it works", r)
	}
	return t
}

func TestItIsAnErrorIfKcmFailsWhatTheOriginalPasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kcm, original string
		want          string
	}{
		{Passed, Passed, ""}, {Passed, Failed, ""}, {Failed, Failed, ""}, {Skipped, Skipped, ""},
		{Failed, Passed, "kcm fails it works"}, {"", Passed, "kcm fails it works"},
	} {
		err := tableOf(true, map[string]Result{"kcm": {Mark: c.kcm}, "original": {Mark: c.original}}, "kcm", "original").Err()
		assert.Equal(t, c.want, text(err), "%q and %q", c.kcm, c.original)
	}
	for _, alone := range []string{"kcm", "original"} {
		assert.EqualError(t, tableOf(true, map[string]Result{alone: {Mark: Failed, Told: "why\n"}}, alone).Err(),
			alone+" fails it works\nwhy")
		assert.EqualError(t, tableOf(true, nil, alone).Err(), alone+" fails it works", "it has not ended")
		assert.NoError(t, tableOf(true, map[string]Result{alone: {Mark: Failed, Intended: true}}, alone).Err())
	}
}

func TestEachIsJudgedUnlessItIsJudgedBesideTheOther(t *testing.T) {
	t.Parallel()
	both := tableOf(false, map[string]Result{"kcm": {Mark: Failed}, "original": {Mark: Failed}}, "kcm", "original")
	assert.EqualError(t, both.Err(), "kcm fails it works\noriginal fails it works")
}

func TestWhatIsComplainedOfIsAnError(t *testing.T) {
	t.Parallel()
	table := tableOf(true, map[string]Result{"kcm": {Mark: Passed}}, "kcm")
	table.Complain("it has become better")
	assert.EqualError(t, table.Err(), "it has become better")
}

func TestATableHasMarksNotesAndSums(t *testing.T) {
	t.Parallel()
	table := New([]string{"kcm", "original"}, []string{"a", "longer", "left"})
	table.Put("kcm", "a", Result{Mark: Passed, Took: 1500 * time.Millisecond})
	table.Put("original", "a", Result{Mark: Failed, Took: time.Second, Note: "one\ntwo"})
	table.Put("kcm", "longer", Result{Mark: Skipped, Note: "it cannot"})
	table.Put("original", "longer", Result{Mark: Skipped, Note: "it cannot"})
	assert.Equal(t, `
        kcm        original 
a       ✓   1.5 s  ✗   1.0 s  one
      two
longer  –   0.0 s  –   0.0 s  it cannot
left    ?   0.0 s  ?   0.0 s
kcm: 1 passed, 1 failed, 1 skipped
original: 0 passed, 2 failed, 1 skipped
in 0 s
`, table.String())
}

func TestAPatternThatMatchesNothingIsAnError(t *testing.T) {
	t.Parallel()
	same := func(name string) string { return name }
	chosen, err := Choose("^b", []string{"a", "b", "bc"}, same)
	require.NoError(t, err)
	assert.Equal(t, []string{"b", "bc"}, chosen)
	_, err = Choose("x", []string{"a"}, same)
	assert.EqualError(t, err, `ONLY: nothing matches "x"; one is called a`)
	_, err = Choose("(", []string{"a"}, same)
	assert.ErrorContains(t, err, "ONLY: ")
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
