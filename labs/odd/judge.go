package odd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/process"
)

// How many requests a minute about one object a loop may make while nothing changes, and how many creations in one
// namespace, for those have no name yet. What fails is tried again, each time later than before: ten seconds after it
// has begun to fail, that is a few times a minute.
const (
	mostOfOne  = 30
	mostOfMany = 180
	mostSyncs  = 1200 // of one loop, whatever comes of them
)

// loops is how the names of the users begin as which the loops act.
const loops = "system:serviceaccount:kube-system:"

// hot tells which requests a manager has made too often in that time, the most frequent first. What is about canaries
// does not count.
func hot(events []cluster.AuditEvent, in time.Duration) (says []string) {
	counts, answers := map[string]int{}, map[string]int{}
	for _, e := range events {
		isLoop := strings.HasPrefix(e.User, loops) || e.User == "system:kube-controller-manager"
		if !isLoop || strings.HasPrefix(e.Namespace, canaries) || strings.HasPrefix(e.Name, canaries) {
			continue
		}
		asked := fmt.Sprintf("%s: %s %s.%s %s %s/%s", strings.TrimPrefix(e.User, loops), e.Verb, e.Resource, e.APIGroup,
			e.Subresource, e.Namespace, e.Name)
		counts[asked]++
		answers[asked] = e.Code
	}
	for _, asked := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] }) {
		most := mostOfOne
		if strings.HasSuffix(asked, "/") {
			most = mostOfMany
		}
		if float64(counts[asked]) > float64(most)*in.Minutes() {
			says = append(says, fmt.Sprintf("%s, %d times in %v though nothing changed; the last answer was %d",
				asked, counts[asked], in.Round(time.Second), answers[asked]))
		}
	}
	return says
}

// watchQuiet looks what the manager does while nothing changes, and what it has not done in the end.
func (r *round) watchQuiet(ctx context.Context) error {
	from := time.Now()
	before, err := r.metrics(ctx)
	if err != nil {
		return err
	}
	sleep(ctx, quiet)
	took := time.Since(from)
	after, err := r.metrics(ctx)
	if err != nil {
		return err
	}
	events, err := r.cluster.AuditEvents(func(e cluster.AuditEvent) bool {
		return e.Time.After(from) && e.Time.Before(from.Add(took))
	})
	for _, says := range append(hot(events, took), busy(before, after, took)...) {
		r.found("hot", "%s", says)
	}
	return errors.Join(err, r.lookForUnmade(ctx))
}

// lookForUnmade looks for pods that a DaemonSet does not have though it wants one on each node: of others nobody knows
// here on which.
func (r *round) lookForUnmade(ctx context.Context) error {
	nodes, noNodes := r.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	sets, noSets := r.kube.AppsV1().DaemonSets("").List(ctx, metav1.ListOptions{})
	pods, noPods := r.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err := errors.Join(noNodes, noSets, noPods); err != nil {
		return err
	}
	for _, set := range sets.Items {
		ours := strings.HasPrefix(set.Namespace, own(r.seed, "")) && set.DeletionTimestamp == nil
		for _, node := range nodes.Items {
			has := slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
				return metav1.IsControlledBy(&pod, &set) && isMeantFor(pod, node.Name)
			})
			wanted := ours && int(set.Status.DesiredNumberScheduled) == len(nodes.Items)
			if wanted && !has && r.isTaken(ctx, set, node.Name) {
				r.found("unmade", "DaemonSet %s/%s has no pod on %s, though the API server takes one",
					set.Namespace, set.Name, node.Name)
			}
		}
	}
	return nil
}

func isMeantFor(pod corev1.Pod, node string) bool {
	text, _ := json.Marshal(pod.Spec.Affinity)
	return pod.Spec.NodeName == node || pod.Spec.NodeName == "" && strings.Contains(string(text), `"`+node+`"`)
}

// isTaken creates the pod that a DaemonSet lacks on a node, in the name of its loop, and deletes it. A dry run would
// not ask quotas.
func (r *round) isTaken(ctx context.Context, set appsv1.DaemonSet, node string) bool {
	config := r.cluster.RESTConfig(cluster.Admin)
	config.Impersonate.UserName = loops + "daemon-set-controller"
	config.WarningHandler = rest.NoWarnings{}
	pod := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
	pod.Name, pod.GenerateName = "", "unmade-"
	owner := metav1.NewControllerRef(&set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
	pod.OwnerReferences = []metav1.OwnerReference{*owner}
	on := corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
	terms := []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{on}}}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	pods := kubernetes.NewForConfigOrDie(config).CoreV1().Pods(set.Namespace)
	created, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return false
	}
	pods.Delete(ctx, created.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}) // it may be gone already
	return true
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

// metrics are what the manager says at /metrics, by name with labels, after a garbage collection.
func (p *Player) metrics(ctx context.Context) (map[string]int, error) {
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

// busy tells which loops of kcm have synced too much in that time. The original does not say how often its loops do.
func busy(before, after map[string]int, in time.Duration) (says []string) {
	for _, loop := range slices.Sorted(maps.Keys(after)) {
		syncs := after[loop] - before[loop]
		if strings.HasPrefix(loop, "kcm_loop_sync_duration_seconds_count") && float64(syncs) > mostSyncs*in.Minutes() {
			says = append(says, fmt.Sprintf("%s: %d syncs in %v though nothing changed", loop, syncs, in.Round(time.Second)))
		}
	}
	return says
}

// Metrics of what a manager needs.
const (
	Goroutines = "go_goroutines"
	Heap       = "go_memstats_heap_inuse_bytes"
)

// noGrowth is by how much they may rise: caches grow to their size.
var noGrowth = map[string]int{Goroutines: 50, Heap: 16 << 20}

// Growth tells which metrics have grown without end over six rounds or more: of the last third of them each needs more
// than any of the first.
func Growth(rounds []map[string]int) (says []string) {
	third := len(rounds) / 3
	if third < 2 {
		return nil
	}
	for metric, most := range noGrowth {
		var values []int
		for _, round := range rounds {
			values = append(values, round[metric])
		}
		if more := slices.Min(values[len(values)-third:]) - slices.Max(values[:third]); more > most {
			says = append(says, fmt.Sprintf("%s: at least %d more in the last %d of %d rounds than in the first",
				metric, more, third, len(rounds)))
		}
	}
	return says
}
