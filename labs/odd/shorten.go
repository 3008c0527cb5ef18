package odd

import (
	"cmp"
	"slices"
)

// Shorten leaves out operations as long as what is left still fails, halves first and single ones in the end. Those on one
// kind of object are left out together at first. What it tries is in the order of the numbers.
func Shorten(ops []Op, fails func([]Op) bool) []Op {
	inOrder := func(ops []Op) []Op {
		return slices.SortedFunc(slices.Values(ops), func(a, b Op) int { return cmp.Compare(a.Number, b.Number) })
	}
	kept := slices.SortedStableFunc(slices.Values(ops), func(a, b Op) int { return cmp.Compare(a.Kind.Resource, b.Kind.Resource) })
	for size := (len(kept) + 1) / 2; size >= 1; size /= 2 {
		for start := 0; start < len(kept); {
			rest := slices.Concat(kept[:start], kept[min(start+size, len(kept)):])
			if len(rest) > 0 && fails(inOrder(rest)) {
				kept = rest
			} else {
				start += size
			}
		}
	}
	return inOrder(kept)
}
