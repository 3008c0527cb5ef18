package main

import "slices"

// summary is a quantity over the rounds.
type summary struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// summarise returns the zero summary for no values. The median of an even
// number of values lies half-way between the two in the middle.
func summarise(values []float64) summary {
	if len(values) == 0 {
		return summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return summary{
		Median: (sorted[(n-1)/2] + sorted[n/2]) / 2,
		Min:    sorted[0],
		Max:    sorted[n-1],
	}
}

// spans tells whether a value lies between the least and the greatest.
func (s summary) spans(value float64) bool { return s.Min <= value && value <= s.Max }
