package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEachVerbThatWasUsedHasARow(t *testing.T) {
	t.Parallel()
	all := rowsOf([]*result{
		{Values: map[string]float64{keyRequestsOf("update"): 1, keyRequests: 1}},
		{Values: map[string]float64{keyRequestsOf("create"): 1, keyRequests: 1}},
	})
	assert.Equal(t, []row{
		{key: "requests:create", name: "  create"},
		{key: "requests:update", name: "  update"},
	}, all[len(rows):])
}

func TestSummaries(t *testing.T) {
	t.Parallel()
	assert.Equal(t, summary{}, summarise(nil))
	assert.Equal(t, summary{Median: 3, Min: 3, Max: 3}, summarise([]float64{3}))
	assert.Equal(t, summary{Median: 2, Min: 1, Max: 9}, summarise([]float64{9, 1, 2}))
	assert.Equal(t, summary{Median: 2.5, Min: 1, Max: 9}, summarise([]float64{9, 1, 2, 3}))
}
