package odd

import (
	"cmp"
	"context"
	"encoding/json"
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

// asked is what requests are counted by.
type asked struct{ user, verb, group, resource, namespace, name string }

func (a asked) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s.%s %s %s", a.verb, a.resource, a.group, a.namespace, a.name))
}

// hot tells which requests a manager has made too often in that time. What is about canaries does not count.
func hot(events []cluster.AuditEvent, in time.Duration) (says []string) {
	counts, codes := map[asked]int{}, map[asked]map[int]int{}
	for _, e := range events {
		isLoop := strings.HasPrefix(e.User, loops) || e.User == "system:kube-controller-manager"
		if !isLoop || strings.HasPrefix(e.Namespace, canaries) || strings.HasPrefix(e.Name, canaries) {
			continue
		}
		resource := e.Resource
		if e.Subresource != "" {
			resource += "/" + e.Subresource
		}
		a := asked{e.User, e.Verb, e.APIGroup, resource, e.Namespace, e.Name}
		if counts[a]++; codes[a] == nil {
			codes[a] = map[int]int{}
		}
		codes[a][e.Code]++
	}
	byCount := func(a, b asked) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a.String(), b.String())) }
	for _, a := range slices.SortedFunc(maps.Keys(counts), byCount) {
		most := mostOfOne
		if a.name == "" {
			most = mostOfMany
		}
		if float64(counts[a]) > float64(most)*in.Minutes() {
			says = append(says, fmt.Sprintf("%s: %s, %d times in %v though nothing changed (answers: %v)",
				strings.TrimPrefix(a.user, loops), a, counts[a], in.Round(time.Second), codes[a]))
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
	to := time.Now()
	after, err := r.metrics(ctx)
	if err != nil {
		return err
	}
	events, err := r.cluster.AuditEvents(func(e cluster.AuditEvent) bool {
		return e.Time.After(from) && e.Time.Before(to)
	})
	if err != nil {
		return err
	}
	for _, says := range append(hot(events, to.Sub(from)), busy(before, after, to.Sub(from))...) {
		r.found("hot", "%s", says)
	}
	nodes, err := r.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	sets, err := r.kube.AppsV1().DaemonSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods, err := r.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, set := range sets.Items {
		ours := strings.HasPrefix(set.Namespace, own(r.seed, "")) && set.DeletionTimestamp == nil
		if !ours || int(set.Status.DesiredNumberScheduled) != len(nodes.Items) { // it may not want one on each
			continue
		}
		for _, node := range nodes.Items {
			has := slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
				return metav1.IsControlledBy(&pod, &set) && isMeantFor(pod, node.Name)
			})
			if !has && r.isTaken(ctx, set, node.Name) {
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
	required := &corev1.NodeSelector{NodeSelectorTerms: terms}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
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
	if all := strings.Count(log, panicked); all > r.panics {
		r.panics = all
		lines := strings.Split(log[strings.LastIndex(log, panicked):], "\n")
		r.found("panic", "%s", strings.Join(lines[:min(30, len(lines))], "\n"))
	} else if !r.process.Running() {
		r.found("panic", "the manager has ended; its log ends:\n%s", process.LastLines(log, 20))
	}
}

const panicked = "Observed a panic"

// Figures are what a manager needs: memory in use after a garbage collection.
type Figures struct{ Goroutines, Heap int }

// measure reads the manager's figures.
func (r *round) measure(ctx context.Context) error {
	if err := r.web().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").Do(ctx).Error(); err != nil {
		return err
	}
	metrics, err := r.metrics(ctx)
	r.Goroutines, r.Heap = metrics["go_goroutines"], metrics["go_memstats_heap_inuse_bytes"]
	return err
}

// web is a client of what the manager serves.
func (p *Player) web() rest.Interface {
	config := p.cluster.RESTConfig(cluster.Admin)
	config.Host = "https://127.0.0.1:" + p.port
	config.TLSClientConfig.Insecure = true // the manager has made its certificate itself
	config.TLSClientConfig.CAData, config.TLSClientConfig.CAFile = nil, ""
	return kubernetes.NewForConfigOrDie(config).RESTClient()
}

// metrics are what the manager says at /metrics, by name with labels.
func (p *Player) metrics(ctx context.Context) (map[string]int, error) {
	text, err := p.web().Get().AbsPath("/metrics").DoRaw(ctx)
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

// Rounds from which on growth is told, and how much of it is none: caches grow to their size.
const (
	fewRounds      = 6
	moreGoroutines = 50
	moreHeap       = 16 << 20
)

// Growth tells what has grown without end over rounds: of the last third of them each needs more than any of the first.
func Growth(rounds []Figures) (says []string) {
	if len(rounds) < fewRounds {
		return nil
	}
	third := len(rounds) / 3
	grows := func(what string, most int, of func(Figures) int) {
		by := func(a, b Figures) int { return of(a) - of(b) }
		before, after := slices.MaxFunc(rounds[:third], by), slices.MinFunc(rounds[len(rounds)-third:], by)
		if more := of(after) - of(before); more > most {
			says = append(says, fmt.Sprintf("%s: at least %d more in the last %d of %d rounds than in the first: %v",
				what, more, third, len(rounds), rounds))
		}
	}
	grows("goroutines", moreGoroutines, func(f Figures) int { return f.Goroutines })
	grows("bytes of heap", moreHeap, func(f Figures) int { return f.Heap })
	return says
}
