package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// measured is a report of three rounds in which kcm was better in two rows, and like the original in one.
func measured() *report {
	r := &report{Cores: 2}
	values := func(exist, update, peak float64) map[string]float64 {
		return map[string]float64{"big/exist": 1000 / exist, "update/complete": update, "load/peak": peak * (1 << 20)}
	}
	for i, round := range []struct {
		kcm, original map[string]float64
		limit         float64
	}{
		{values(400, 11, 90), values(150, 10, 100), 600},
		{values(410, 10, 91), values(160, 12, 101), 700},
		{values(390, 12, 92), values(140, 9, 102), 500},
	} {
		r.Rounds = append(r.Rounds,
			&result{Round: i + 1, Subject: limitName, Values: map[string]float64{"limit/exist": 1000 / round.limit}},
			&result{Round: i + 1, Subject: kcmName, Values: round.kcm},
			&result{Round: i + 1, Subject: originalName, Values: round.original})
	}
	r.summarise(loadPhases)
	return r
}

func TestTheTableShowsWhatWasMeasuredAndWhereTheTwoAreAlike(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	measured().print(&out, "build/bench")
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	assert.Equal(t, []string{
		"1000-pod Deployment: pods created pods/s 400 [390–410] 150 [140–160] 2.67",
		"1000-pod Deployment: all pods exist s 2.50 [2.44–2.56] 6.67 [6.25–7.14] 0.38",
		"1000-pod Deployment: rolling update s 11.0 [10.0–12.0] 10.0 [9.0–12.0] 1.10 ≈",
		"RSS, peak MiB 91.0 [90.0–92.0] 101 [100–102] 0.90",
		"",
	}, lines[2:7], "what was not measured has no row")
	assert.Contains(t, out.String(), "creates 600 [500–700] pods/s.\nkcm reaches 67 % of that, the original 25 %.")
	assert.NotContains(t, out.String(), "busy")
}

func TestABusyMachineIsToldOf(t *testing.T) {
	t.Parallel()
	r := measured()
	r.Rounds[0].Load = 1.25
	var out strings.Builder
	r.print(&out, "build/bench")
	assert.Contains(t, out.String(), "The machine was busy before the first round (load 1.2)")
}

func TestEverythingIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := measured()
	require.NoError(t, want.write(dir))
	content, err := os.ReadFile(filepath.Join(dir, "bench.json"))
	require.NoError(t, err)
	got := &report{}
	require.NoError(t, json.Unmarshal(content, got))
	assert.Equal(t, want, got)
	picture, err := os.ReadFile(filepath.Join(dir, "bench.svg"))
	require.NoError(t, err)
	assert.Contains(t, string(picture), "91 against 101 MiB, less is better")
	assert.NotContains(t, string(picture), "%!")
}

func TestSummaries(t *testing.T) {
	t.Parallel()
	assert.Equal(t, summary{}, summarise(nil))
	assert.Equal(t, summary{Median: 3, Min: 3, Max: 3}, summarise([]float64{3}))
	assert.Equal(t, summary{Median: 2, Min: 1, Max: 9}, summarise([]float64{9, 1, 2}))
	assert.Equal(t, summary{Median: 2.5, Min: 1, Max: 9}, summarise([]float64{9, 1, 2, 3}))
}

func TestARowAddsUpItsKeysInItsUnit(t *testing.T) {
	t.Parallel()
	r := row{key: "a + b", unit: "ms", per: 4}
	value, ok := r.value(map[string]float64{"a": 1, "b": 3}, r.key)
	assert.True(t, ok)
	assert.InDelta(t, 1000, value, 0)
	_, ok = r.value(map[string]float64{"c": 1}, r.key)
	assert.False(t, ok)
}
