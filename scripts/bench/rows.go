package main

import (
	"maps"
	"slices"
	"strings"
)

// Keys of the values that a trial measures. Times are in seconds, memory is in
// MiB.
const (
	keyRate         = "podsPerSecond"
	keyExist        = "podsExist"
	keyReady        = "podsReady"
	keyComplete     = "deploymentComplete"
	keyUpdate       = "rollingUpdate"
	keyZero         = "scaleToZero"
	keyManyExist    = "manyPodsExist"
	keyManyReady    = "manyPodsReady"
	keyManyComplete = "manyDeploymentsComplete"
	keyColdStart    = "coldStart"
	keyClean        = "failoverClean"
	keyKilled       = "failoverKilled"
	keyResident     = "rss"
	keyAnonymous    = "rssAnonymous"
	keyPeak         = "rssPeak"
	keyCPU          = "cpu"
	keyRequests     = "requests"
)

// keyRequestsOf is for the requests of one verb.
func keyRequestsOf(verb string) string { return keyRequests + ":" + verb }

// row is a line of the table.
type row struct {
	key, name, unit string
	// target is nil where nothing is asked for.
	target *target
	// beside is whose values stand beside kcm's, if not the original's.
	beside string
}

// target is what kcm is to reach, as a multiple of the original's median.
type target struct {
	Ratio float64 `json:"ratio"`
	// AtLeast is for what is the better the more of it there is.
	AtLeast bool `json:"atLeast"`
	// Tie says that a difference within the spread of the rounds is none.
	Tie bool `json:"tie"`
}

var (
	twice      = &target{Ratio: 2, AtLeast: true}
	notSlower  = &target{Ratio: 1, Tie: true}
	lessMemory = &target{Ratio: 0.6}
	fifth      = &target{Ratio: 0.2}
)

// rows are the lines of the table, before those for each verb.
var rows = []row{
	{key: keyRate, name: "1000-pod Deployment: pods created", unit: "pods/s", target: twice},
	{key: keyExist, name: "1000-pod Deployment: all pods exist", unit: "s", target: notSlower},
	{key: keyReady, name: "1000-pod Deployment: all pods Ready", unit: "s", target: notSlower},
	{key: keyUpdate, name: "1000-pod Deployment: rolling update", unit: "s", target: notSlower},
	{key: keyZero, name: "1000-pod Deployment: scale to zero", unit: "s", target: notSlower},
	{key: keyManyExist, name: "200 Deployments x 10: all pods exist", unit: "s", target: notSlower},
	{key: keyManyReady, name: "200 Deployments x 10: all pods Ready", unit: "s", target: notSlower},
	{key: keyColdStart, name: "cold start: each loop has worked", unit: "s", target: notSlower},
	{key: keyClean, name: "failover, leader asked to stop", unit: "s", target: fifth},
	{key: keyKilled, name: "failover, leader killed", unit: "s", target: notSlower},
	{key: keyResident, name: "RSS with 1000 pods", unit: "MiB", target: lessMemory},
	{key: keyResident, name: "  beside the original with all its loops", unit: "MiB", target: lessMemory, beside: allLoopsName},
	{key: keyPeak, name: "RSS, peak", unit: "MiB", target: lessMemory},
	{key: keyCPU, name: "CPU during the load", unit: "s"},
	{key: keyRequests, name: "API requests during the load"},
}

// rowsOf returns the rows of which all results of both subjects have a value,
// with one for each verb that any of them has used.
func rowsOf(results []*result) []row {
	verbs := map[string]bool{}
	for _, r := range results {
		for key := range r.Values {
			if verb, ok := strings.CutPrefix(key, keyRequestsOf("")); ok {
				verbs[verb] = true
			}
		}
	}
	all := slices.Clone(rows)
	for _, verb := range slices.Sorted(maps.Keys(verbs)) {
		all = append(all, row{key: keyRequestsOf(verb), name: "  " + verb})
	}
	return all
}

// verdict is how kcm has done in a row.
type verdict string

const (
	met     verdict = "met"
	tie     verdict = "tie"
	missed  verdict = "missed"
	noAim   verdict = ""
	tieSign         = "≈"
)

// sign is what the table shows.
func (v verdict) sign() string {
	return map[verdict]string{met: "✓", tie: tieSign, missed: "✗"}[v]
}

// rule says how a row is judged.
const rule = "Rows are judged by medians. Where the target is ≤ 1, a kcm that is slower by the median is tied with the original (" + tieSign + "), " +
	"and the target is met, if each median lies within the range of the other's rounds."

// judge compares kcm with the original.
func (t *target) judge(kcm, original summary) verdict {
	if t == nil {
		return noAim
	}
	ratio := kcm.Median / original.Median
	switch {
	case t.AtLeast && ratio >= t.Ratio, !t.AtLeast && ratio <= t.Ratio:
		return met
	case t.Tie && kcm.spans(original.Median) && original.spans(kcm.Median):
		return tie
	default:
		return missed
	}
}
