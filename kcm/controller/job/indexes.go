package job

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// indexes is a set of completion indexes. It is kept as intervals, in order and
// with room between them, because a Job may have a hundred thousand.
type indexes []interval

// interval is from first to last, both included.
type interval struct{ first, last int }

// indexesOf returns the set of the given indexes.
func indexesOf(list ...int) indexes {
	var x indexes
	for _, i := range list {
		x = append(x, interval{i, i})
	}
	return x.union()
}

// parseIndexes reads what String writes, such as "1,3-5", and leaves out what is
// not below completions, which may have become fewer, and what is no index.
func parseIndexes(text string, completions int) indexes {
	var x indexes
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if last = min(last, completions-1); err == nil && err2 == nil && first <= last {
			x = append(x, interval{first, last})
		}
	}
	return x.union()
}

// String writes the set as in a Job's status: two neighbours are "3,4", three
// are "3-5".
func (x indexes) String() string {
	var parts []string
	for _, i := range x {
		parts = append(parts, strconv.Itoa(i.first))
		switch i.last - i.first {
		case 0:
		case 1:
			parts = append(parts, strconv.Itoa(i.last))
		default:
			parts[len(parts)-1] += "-" + strconv.Itoa(i.last)
		}
	}
	return strings.Join(parts, ",")
}

// union returns the set of what is in this set or in any of the others.
func (x indexes) union(others ...indexes) indexes {
	all := slices.Concat(slices.Concat(others...), x)
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.first, b.first) })
	var union indexes
	for _, i := range all {
		if n := len(union); n > 0 && i.first <= union[n-1].last+1 {
			union[n-1].last = max(union[n-1].last, i.last)
		} else {
			union = append(union, i)
		}
	}
	return union
}

// len returns how many indexes are in the set.
func (x indexes) len() int {
	n := 0
	for _, i := range x {
		n += i.last - i.first + 1
	}
	return n
}

// common returns how many indexes are in both sets.
func (x indexes) common(other indexes) int {
	return x.len() + other.len() - x.union(other).len()
}

// has tells whether an index is in the set. It halves the intervals: a Job may
// have to ask for a hundred thousand indexes, of as many intervals.
func (x indexes) has(index int) bool {
	_, found := slices.BinarySearchFunc(x, index, func(i interval, index int) int {
		switch {
		case i.last < index:
			return -1
		case i.first > index:
			return 1
		}
		return 0
	})
	return found
}

// missing returns the first n indexes below completions that are not in the set,
// or as many as there are.
func (x indexes) missing(n, completions int) []int {
	var missing []int
	next := 0
	for _, i := range append(slices.Clone(x), interval{completions, completions}) {
		for ; next < min(i.first, completions) && len(missing) < n; next++ {
			missing = append(missing, next)
		}
		next = max(next, i.last+1)
	}
	return missing
}
