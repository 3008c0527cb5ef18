package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestATargetIsJudgedByMediansAndTheSpread(t *testing.T) {
	t.Parallel()
	original := summary{Median: 10, Min: 9, Max: 12}
	tests := map[string]struct {
		target *target
		kcm    summary
		want   verdict
	}{
		"as slow is not slower": {notSlower, summary{10, 10, 10}, met},
		"faster":                {notSlower, summary{8, 7, 30}, met},
		"slower, each median in the other's range":    {notSlower, summary{11, 10, 13}, tie},
		"slower, but never as fast as the original":   {notSlower, summary{11, 10.5, 13}, missed},
		"slower than the original has ever been":      {notSlower, summary{12.5, 9, 13}, missed},
		"exactly twice as much":                       {twice, summary{20, 1, 30}, met},
		"less than twice as much, whatever the range": {twice, summary{19.9, 9, 40}, missed},
		"a range makes no tie where less is asked":    {lessMemory, summary{6.1, 5, 12}, missed},
		"less memory":      {lessMemory, summary{6, 6, 7}, met},
		"nothing is asked": {nil, summary{100, 100, 100}, noAim},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, tt.target.judge(tt.kcm, original))
		})
	}
}

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
