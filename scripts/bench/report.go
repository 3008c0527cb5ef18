package main

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
)

// report is everything that is known after the last round.
type report struct {
	Machine machine `json:"machine"`
	// Flags are what both were started with, apart from the cluster's files.
	Flags  []string    `json:"flags"`
	Rows   []reportRow `json:"rows"`
	Limit  summary     `json:"limitPodsPerSecond"`
	Rounds []*result   `json:"rounds"`
}

// result is what one trial has measured.
type result struct {
	Round   int    `json:"round"`
	Subject string `json:"subject"`
	// Load is the machine's load over the minute before the trial.
	Load float64 `json:"loadBefore"`
	// Values are in seconds, MiB or counts, by key.
	Values map[string]float64 `json:"values"`
	// FirstWork is when each loop had done its first work, in seconds from
	// exec.
	FirstWork map[string]float64 `json:"firstWork,omitempty"`
	// Requests counts the requests during the load by verb and resource.
	Requests map[string]int `json:"requests,omitempty"`
}

// reportRow is a row with its result.
type reportRow struct {
	Key      string  `json:"key"`
	Name     string  `json:"name"`
	Unit     string  `json:"unit,omitempty"`
	KCM      summary `json:"kcm"`
	Original summary `json:"original"`
	// Ratio is kcm's median by the original's, or 0 if that is 0.
	Ratio float64 `json:"ratio"`
	// Alike tells that each median lies within the range of the other's rounds,
	// so nothing can be said about which is better.
	Alike bool `json:"alike,omitempty"`
	// MoreIsBetter than less.
	MoreIsBetter bool `json:"moreIsBetter,omitempty"`
}

// summarise makes the rows and the limit from the rounds. A row of which
// nothing was measured, because -only left it out, is left out too.
func (r *report) summarise() {
	r.Rows = nil
	r.Limit = summarise(r.values(limit.name, keyRate))
	for _, row := range rowsOf(r.Rounds) {
		kcm, original := r.values(kcmName, row.key), r.values(cmp.Or(row.beside, originalName), cmp.Or(row.besideKey, row.key))
		if len(kcm)+len(original) == 0 {
			continue
		}
		done := reportRow{Key: row.key, Name: row.name, Unit: row.unit, KCM: summarise(kcm), Original: summarise(original), MoreIsBetter: row.more}
		if done.Original.Median != 0 {
			done.Ratio = done.KCM.Median / done.Original.Median
		}
		done.Alike = done.KCM.spans(done.Original.Median) && done.Original.spans(done.KCM.Median)
		r.Rows = append(r.Rows, done)
	}
}

// values are what the rounds have measured under a key.
func (r *report) values(subject, key string) []float64 {
	var values []float64
	for _, result := range r.Rounds {
		if value, ok := result.Values[key]; ok && result.Subject == subject {
			values = append(values, value)
		}
	}
	return values
}

// write puts bench.json and bench.svg into a directory.
func (r *report) write(dir string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "bench.json"), append(content, '\n'), 0o644); err != nil {
		return err
	}
	return r.draw(filepath.Join(dir, "bench.svg"))
}
