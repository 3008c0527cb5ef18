package odd

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyTheOperationsAreLeftThatAFailureNeedsInTheirOrder(t *testing.T) {
	t.Parallel()
	ops := Draw(7)
	for _, needed := range [][]int{{3, 9}, {1, len(ops)}, {17, 18}, {42}, {5, 23, 24, 58}} {
		plays := 0
		kept := Shorten(ops, func(left []Op) bool {
			plays++
			numbers := numbersOf(left)
			require.True(t, slices.IsSorted(numbers), "operations are played in their order")
			return !slices.ContainsFunc(needed, func(n int) bool { return !slices.Contains(numbers, n) })
		})
		require.Equal(t, needed, numbersOf(kept))
		require.Less(t, plays, len(ops))
	}
}

func TestWhenNothingFailsAgainAllOperationsAreLeft(t *testing.T) {
	t.Parallel()
	ops := Draw(7)
	require.Equal(t, numbersOf(ops), numbersOf(Shorten(ops, func([]Op) bool { return false })))
}

func numbersOf(ops []Op) (numbers []int) {
	for _, op := range ops {
		numbers = append(numbers, op.Number)
	}
	return numbers
}
