package chapters

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exercised is a chapter with an exercise of each kind.
const exercised = `# A chapter

## How many may be missing

<!-- exercise: bounds, 20 minutes, TestBounds TestABoundHolds -->
**Yours**

1. Round one up,
   and the other down.
2. Not both to 0.

<details><summary>Hint 1: where to look</summary>

In the rule.

</details>
<details><summary>The code</summary>

‘‘‘go kcm/shop bounds exercise
‘‘‘

<details><summary>More</summary>

It is short.

</details>

</details>
<details><summary>Another fold</summary>

It stays.

</details>

## What users see

<!-- scenario: too-many, 30 minutes, bounds/both-up, shop/many.txtar -->
**Yours**

<details><summary>Hint 1</summary>

Count.

</details>
`

func parseExercised(text string) (*Chapter, error) {
	return Parse(7, "07-shop", &Page{Path: "README.md", Source: []byte(strings.ReplaceAll(text, "‘‘‘", "```"))})
}

func TestAnExerciseHasItsRuleItsHintsAndItsCode(t *testing.T) {
	t.Parallel()
	c, err := parseExercised(exercised)
	require.NoError(t, err)
	require.Len(t, c.Exercises, 2)
	e := c.Exercises[0]
	assert.Equal(t, 5, e.Line)
	assert.Equal(t, "bounds", e.Name)
	assert.Equal(t, 20, e.Minutes)
	assert.Equal(t, []string{"TestBounds", "TestABoundHolds"}, e.Tests)
	assert.Equal(t, "How many may be missing", e.Heading)
	assert.Equal(t, []Hint{{"Hint 1: where to look", "In the rule."}}, e.Hints)
	assert.Len(t, e.Blocks, 1)
	assert.False(t, e.Scenario())
	reverse := c.Exercises[1]
	assert.True(t, reverse.Scenario())
	assert.Equal(t, "bounds/both-up", reverse.Broken)
	assert.Equal(t, 7, reverse.BrokenIn)
	assert.Equal(t, "shop/many.txtar", reverse.Answer)
	assert.Equal(t, "What users see", reverse.Heading)
}

func TestWhatIsBrokenMayBeOfAnEarlierChapter(t *testing.T) {
	t.Parallel()
	c, err := parseExercised(strings.Replace(exercised, "bounds/both-up", "06/count/one-too-many", 1))
	require.NoError(t, err)
	assert.Equal(t, "count/one-too-many", c.Exercises[1].Broken)
	assert.Equal(t, 6, c.Exercises[1].BrokenIn)
}

func TestWithoutAnswersTheCodeIsGoneAndTheRestStays(t *testing.T) {
	t.Parallel()
	c, err := parseExercised(exercised)
	require.NoError(t, err)
	text := c.Pages[0].WithoutAnswers()
	for _, gone := range []string{"The code", "kcm/shop", "More", "It is short."} {
		assert.NotContains(t, text, gone)
	}
	for _, stays := range []string{"Hint 1: where to look", "In the rule.", "Another fold", "It stays.", "## What users see"} {
		assert.Contains(t, text, stays)
	}
	assert.Equal(t, strings.Count(text, "<details>"), strings.Count(text, "</details>"))
}

func TestMistakesInExercisesAreSaidWithTheirLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after, says string }{
		{"exercise: bounds, 20 minutes, TestBounds TestABoundHolds", "exercise: bounds, TestBounds", `README.md:5: "exercise: bounds, TestBounds" is no exercise: write <!-- exercise: bounds, 20 minutes, `},
		{"20 minutes, TestBounds TestABoundHolds", "20 minutes, Bounds", "README.md:5: "},
		{"bounds/both-up, ", "", "README.md:37: "},
		{"scenario: too-many", "scenario: bounds", "README.md:37: a second exercise bounds; the first is chapters/07-shop/README.md:5"},
		{"<summary>Hint 1: where to look", "<summary>Where to look", "README.md:5: the exercise bounds has no hint"},
		{"kcm/shop bounds exercise", "kcm/shop bounds", "README.md:5: the exercise bounds has no code"},
		{"<details><summary>The code", "\n## Elsewhere\n\n<details><summary>The code", "README.md:5: the exercise bounds has no code"},
		{"## What users see\n", "## Below\n\n‘‘‘go kcm/shop stray exercise\n‘‘‘\n\n## What users see\n", "README.md:37: the block belongs to no exercise"},
	} {
		require.Contains(t, exercised, c.before)
		_, err := parseExercised(strings.Replace(exercised, c.before, c.after, 1))
		require.ErrorContains(t, err, c.says)
	}
}
