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

// measured is a report of three rounds in which kcm was better in two rows, and
// like the original in one.
func measured() *report {
	r := &report{Machine: machine{Cores: 2}}
	for i, values := range []struct{ kcm, original, limit map[string]float64 }{
		{map[string]float64{keyRate: 400, keyUpdate: 11, keyPeak: 90}, map[string]float64{keyRate: 150, keyUpdate: 10, keyPeak: 100}, map[string]float64{keyRate: 600}},
		{map[string]float64{keyRate: 410, keyUpdate: 10, keyPeak: 91}, map[string]float64{keyRate: 160, keyUpdate: 12, keyPeak: 101}, map[string]float64{keyRate: 700}},
		{map[string]float64{keyRate: 390, keyUpdate: 12, keyPeak: 92}, map[string]float64{keyRate: 140, keyUpdate: 9, keyPeak: 102}, map[string]float64{keyRate: 500}},
	} {
		r.Rounds = append(r.Rounds,
			&result{Round: i + 1, Subject: limit.name, Values: values.limit},
			&result{Round: i + 1, Subject: kcmName, Values: values.kcm},
			&result{Round: i + 1, Subject: originalName, Values: values.original},
		)
	}
	r.summarise()
	return r
}

func TestTheTableShowsWhatWasMeasuredAndWhereTheTwoAreAlike(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	measured().print(&out, "build/bench")
	lines := strings.Split(out.String(), "\n")
	fields := func(line string) []string { return strings.Fields(line) }
	assert.Equal(t, fields("1000-pod Deployment: pods created pods/s 400 [390–410] 150 [140–160] 2.67"), fields(lines[2]))
	assert.Equal(t, fields("1000-pod Deployment: rolling update s 11.0 [10.0–12.0] 10.0 [9.0–12.0] 1.10 ≈"), fields(lines[3]))
	assert.Equal(t, fields("RSS, peak MiB 91.0 [90.0–92.0] 101 [100–102] 0.90"), fields(lines[4]))
	assert.Empty(t, lines[5], "what was not measured has no row")
	assert.Contains(t, out.String(), "creates 600 [500–700] pods/s. kcm reaches 67 % of that, the original 25 %.")
}

func TestABusyMachineIsToldOf(t *testing.T) {
	t.Parallel()
	r := measured()
	assert.NotContains(t, r.caption(), "busy")
	r.Rounds[0].Load = 1.25
	assert.Contains(t, r.caption(), "The machine was busy before the first round (load 1.2): measure again when it is quiet.")
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
	assert.NotContains(t, string(picture), fontFamily+";", "another font is named for where this one is not")
}
