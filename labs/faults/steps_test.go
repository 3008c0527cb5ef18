package faults

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASeedAlwaysHasTheSameSteps(t *testing.T) {
	t.Parallel()
	require.Equal(t, told(Draw(7)), told(Draw(7)))
	require.NotEqual(t, told(Draw(7)), told(Draw(8)))
}

func told(steps []Step) (lines []string) {
	for _, s := range steps {
		lines = append(lines, s.Pause.String()+" "+s.String())
	}
	return lines
}

func TestStepsHaveTheirNumbersAndCanAllBeDone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		model := NewModel()
		for i, s := range Draw(seed) {
			require.Equal(t, i+1, s.Number)
			require.True(t, model.Can(s), "seed %d, step %s", seed, s)
			model.Then(s)
		}
	}
}

func TestEveryActEveryFaultAndEveryWayToDeleteIsDrawn(t *testing.T) {
	t.Parallel()
	drawn := map[string]bool{}
	for seed := range uint64(100) {
		for _, s := range Draw(seed) {
			drawn[s.Act], drawn[s.Fault.Name], drawn[string(s.Policy)] = true, true, true
			drawn[s.Image], drawn[s.Strategy] = true, true
		}
	}
	for _, act := range Acts {
		require.True(t, drawn[act.Name], act.Name)
	}
	for _, kind := range Kinds {
		require.True(t, drawn[kind.Name], kind.Name)
	}
	for _, policy := range policies {
		require.True(t, drawn[string(policy)], policy)
	}
	for _, other := range slices.Concat(images, strategies) {
		require.True(t, drawn[other], other)
	}
}

func TestAFrozenLeaderKeepsItsNamespaceAndTheAPIServer(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		kinds := map[string]bool{}
		for _, s := range Draw(seed) {
			kinds[s.Act], kinds[s.Fault.Name] = true, true
		}
		require.False(t, kinds["freeze"] && (kinds["namespace"] || kinds["apiserver"] || kinds["etcd"]), "seed %d", seed)
	}
}

func TestOnlyTheStepsAreLeftThatAFailureNeedsInTheirOrder(t *testing.T) {
	t.Parallel()
	steps := Draw(7)
	for _, needed := range [][]int{{3, 9}, {1, 80}, {17, 18}, {42}, {5, 23, 24, 58}} {
		plays := 0
		kept := Shorten(steps, byApp, numberOf, func(left []Step) bool {
			plays++
			numbers := numbersOf(left)
			require.True(t, slices.IsSorted(numbers), "steps are played in their order")
			return !slices.ContainsFunc(needed, func(n int) bool { return !slices.Contains(numbers, n) })
		})
		require.Equal(t, needed, numbersOf(kept))
		require.Less(t, plays, 80)
	}
}

func byApp(a, b Step) int { return cmp.Compare(a.App, b.App) }
func numberOf(s Step) int { return s.Number }

func numbersOf(steps []Step) (numbers []int) {
	for _, s := range steps {
		numbers = append(numbers, s.Number)
	}
	return numbers
}

func TestWhenNothingFailsAgainAllStepsAreLeft(t *testing.T) {
	t.Parallel()
	steps := Draw(7)
	require.Equal(t, numbersOf(steps), numbersOf(Shorten(steps, byApp, numberOf, func([]Step) bool { return false })))
}
