package controller

import "maps"

// With returns a copy of labels or annotations with one more. There may be none
// so far: an object without labels has a nil map, of which maps.Clone is nil as
// well, and a write into that panics.
func With(m map[string]string, key, value string) map[string]string {
	with := maps.Clone(m)
	if with == nil {
		with = map[string]string{}
	}
	with[key] = value
	return with
}
