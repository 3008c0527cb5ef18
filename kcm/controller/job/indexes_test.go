package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestIndexes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour string
		indexes   []int
		text      string
	}{
		{"no index is no text", nil, ""},
		{"one index is its number", []int{4}, "4"},
		{"two neighbours are two numbers", []int{3, 4}, "3,4"},
		{"three neighbours are an interval", []int{3, 4, 5}, "3-5"},
		{"what lies apart is separated", []int{9, 1, 4, 3, 5}, "1,3-5,9"},
		{"what comes twice is there once", []int{2, 2, 1}, "1,2"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.text, indexesOf(test.indexes...).String(), "the text for %v", test.indexes)
			assert.Equal(t, test.text, parseIndexes(test.text, 100).String(), "%q, read and written again", test.text)
		})
	}
	for _, test := range []struct {
		behaviour, text string
		completions     int
		want            string
	}{
		{"what is not below completions is left out", "1,3-5,8", 5, "1,3,4"},
		{"intervals that touch are one", "1-3,4-6", 10, "1-6"},
		{"two numbers in a row are neighbours", "1,2,3", 10, "1-3"},
		{"what is no number is left out", "1,x,3-y,5", 10, "1,5"},
		{"what is negative is left out", "-1,2", 10, "2"},
		{"an interval the wrong way round is left out", "5-3,7", 10, "7"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, parseIndexes(test.text, test.completions).String(), "%q of a Job with %d completions", test.text, test.completions)
		})
	}
}

func TestMissingIndexes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour, there string
		n, completions   int
		want             string
	}{
		{"of none the first are missing", "", 2, 5, "0 1"},
		{"gaps come first", "0,2-3", 3, 6, "1 4 5"},
		{"no more are missing than there are", "0-2", 9, 4, "3"},
		{"nothing is missing when all are there", "0-3", 1, 4, ""},
		{"none are asked for", "", 0, 4, ""},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			missing := parseIndexes(test.there, 100).missing(test.n, test.completions)
			assert.Equal(t, test.want, strings.Trim(fmt.Sprint(missing), "[]"), "%d missing of %d, where %q are there", test.n, test.completions, test.there)
		})
	}
}

func TestIndexesAreASet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.IntRange(0, 20), 0, 12)
		a, b := list.Draw(t, "a"), list.Draw(t, "b")
		union, common := indexesOf(a...).union(indexesOf(b...)), indexesOf(a...).common(indexesOf(b...))
		both, either := 0, 0
		for i := range 21 {
			inA, inB := slices.Contains(a, i), slices.Contains(b, i)
			if union.has(i) != (inA || inB) {
				t.Fatalf("%d is in %q, the union of %v and %v: %v", i, union, a, b, union.has(i))
			}
			if inA && inB {
				both++
			}
			if inA || inB {
				either++
			}
		}
		if union.len() != either || common != both {
			t.Fatalf("%v and %v: %d in either and %d in both, and it says %d and %d", a, b, either, both, union.len(), common)
		}
	})
}

// Every second of 24,000 indexes is settled, and each of 25,000 failed pods asks for
// its own: some 200 million comparisons, if none is skipped.
func BenchmarkManyAskForTheirIndex(b *testing.B) {
	var settled indexes
	for i := range 12_000 {
		settled = append(settled, interval{2 * i, 2 * i})
	}
	for b.Loop() {
		for i := range 25_000 {
			settled.has(i)
		}
	}
}
