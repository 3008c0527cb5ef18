package odd

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/process"
	"github.com/kcm-book/kcm-book/labs/proxy"
)

// How often a minute a loop may make requests about one object while nothing changes, create objects in one namespace,
// for those have no name yet, and sync, whatever comes of it. What fails is tried again, each time later than before:
// ten seconds after it has begun to fail, that is a few times a minute.
const mostOfOne, mostOfMany, mostSyncs = 30, 180, 1200

// loops is how the names of the users begin as which the loops act.
const loops = "system:serviceaccount:kube-system:"

// hot tells what a manager has done too often in that time: requests, but for those about canaries, and syncs of kcm's
// loops by the metrics before and after. The original does not say how often its loops sync.
func hot(events []cluster.AuditEvent, before, after map[string]int, in time.Duration) (says []string) {
	counts, last := map[string]int{}, map[string]string{}
	for metric, count := range after {
		if strings.HasPrefix(metric, "kcm_loop_sync_duration_seconds_count{") {
			counts[metric] = count - before[metric]
		}
	}
	for _, e := range events {
		user, about := e.User.Username, e.ObjectRef
		isLoop := strings.HasPrefix(user, loops) || user == "system:kube-controller-manager"
		if !isLoop || strings.HasPrefix(about.Namespace, canaries) || strings.HasPrefix(about.Name, canaries) {
			continue
		}
		asked := fmt.Sprintf("%s: %s %s.%s %s %s/%s", strings.TrimPrefix(user, loops), e.Verb, about.Resource,
			about.APIGroup, about.Subresource, about.Namespace, about.Name)
		counts[asked]++
		last[asked] = fmt.Sprintf("; the last answer was %d", e.ResponseStatus.Code)
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		most := mostOfOne
		switch what[len(what)-1] {
		case '/':
			most = mostOfMany
		case '}':
			most = mostSyncs
		}
		if float64(counts[what]) > float64(most)*in.Minutes() {
			says = append(says, fmt.Sprintf("%s, %d times in %v though nothing changed%s",
				what, counts[what], in.Round(time.Second), last[what]))
		}
	}
	return says
}

// watchQuiet looks what the manager does while nothing changes.
func (r *round) watchQuiet(ctx context.Context) error {
	from := time.Now()
	before, err := r.measure(ctx)
	if err != nil {
		return err
	}
	_ = proxy.Pause(ctx, time.Now().Add(quiet))
	took := time.Since(from)
	after, err := r.measure(ctx)
	if err != nil {
		return err
	}
	events, err := r.cluster.AuditEvents(func(e *cluster.AuditEvent) bool {
		at := e.RequestReceivedTimestamp.Time
		return at.After(from) && at.Before(from.Add(took))
	})
	for _, says := range hot(events, before, after, took) {
		r.found("hot", "%s", says)
	}
	return err
}

// lookForPanics looks into the log, and whether the manager has ended.
func (r *round) lookForPanics() {
	log := r.process.Log.String()
	if at := strings.Index(log, "Observed a panic"); at >= 0 {
		lines := strings.Split(log[at:], "\n")
		r.found("panic", "%s", strings.Join(lines[:min(30, len(lines))], "\n"))
	} else if !r.process.Running() {
		r.found("panic", "the manager has ended; its log ends:\n%s", process.LastLines(log, 20))
	}
}

// measure returns what the manager says at /metrics, by name with labels, after a garbage collection.
func (p *Player) measure(ctx context.Context) (map[string]int, error) {
	config := p.cluster.RESTConfig(cluster.Admin)
	config.Host = "https://127.0.0.1:" + p.port
	config.TLSClientConfig.Insecure = true // the manager has made its certificate itself
	config.TLSClientConfig.CAData, config.TLSClientConfig.CAFile = nil, ""
	web := kubernetes.NewForConfigOrDie(config).RESTClient()
	if err := web.Get().AbsPath("/debug/pprof/heap").Param("gc", "1").Do(ctx).Error(); err != nil {
		return nil, err
	}
	text, err := web.Get().AbsPath("/metrics").DoRaw(ctx)
	metrics := map[string]int{}
	for _, found := range regexp.MustCompile(`(?m)^(\S+) (\S+)$`).FindAllSubmatch(text, -1) {
		value, _ := strconv.ParseFloat(string(found[2]), 64)
		metrics[string(found[1])] = int(value)
	}
	return metrics, err
}

// Goroutines and Heap are metrics of what a manager needs.
const Goroutines, Heap = "go_goroutines", "go_memstats_heap_inuse_bytes"

// noGrowth is by how much they may rise: caches grow to their size.
var noGrowth = map[string]int{Goroutines: 50, Heap: 16 << 20}

// Growth tells which metrics have grown without end over six draws or more: after the last third of them each is higher
// than after any of the first.
func (p *Player) Growth() (findings []Finding) {
	third := len(p.metrics) / 3
	if third < 2 {
		return nil
	}
	for metric, most := range noGrowth {
		var values []int
		for _, metrics := range p.metrics {
			values = append(values, metrics[metric])
		}
		if more := slices.Min(values[len(values)-third:]) - slices.Max(values[:third]); more > most {
			findings = append(findings, Finding{"growth", fmt.Sprintf(
				"%s: at least %d more after the last %d of %d draws than after the first", metric, more, third, len(values))})
		}
	}
	return findings
}
