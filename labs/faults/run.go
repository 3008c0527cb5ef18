package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/await"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/process"
	"github.com/kcm-book/kcm-book/labs/proxy"
)

const (
	// patience is how long a step and the end may take. A machine that has much
	// else to do is no mistake of the manager.
	patience = time.Minute
	// quiet is for how long nothing may be written in the end.
	quiet = time.Second
	every = 20 * time.Millisecond
)

// Player plays runs on a cluster, several at the same time unless they are to be
// alone.
type Player struct {
	cluster     *cluster.Cluster
	client      kubernetes.Interface
	dynamic     dynamic.Interface
	collections map[string]bool
	dir         string
}

// NewPlayer returns a player on a cluster that keeps its files in dir.
func NewPlayer(c *cluster.Cluster, dir string) (*Player, error) {
	config := c.RESTConfig(cluster.Admin)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	collections, err := collectionsOf(client)
	if err != nil {
		return nil, err
	}
	return &Player{cluster: c, client: client, dynamic: api, collections: collections, dir: dir}, nil
}

// collectionsOf returns the paths of all namespaced resources in all namespaces.
func collectionsOf(client kubernetes.Interface) (map[string]bool, error) {
	_, lists, err := client.Discovery().ServerGroupsAndResources()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its resources: %w", err)
	}
	collections := map[string]bool{}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			root := "/apis/"
			if list.GroupVersion == "v1" {
				root = "/api/"
			}
			if resource.Namespaced && !strings.Contains(resource.Name, "/") {
				collections[path.Join(root, list.GroupVersion, resource.Name)] = true
			}
		}
	}
	return collections, nil
}

// Result is what was seen in a run.
type Result struct {
	Workload *Workload
	Fault    Fault
	Manager  *play.Manager
	// Findings are what was wrong, or nothing.
	Findings []Finding
	// Struck are the faults that have happened: there was such a write or event,
	// and, for an older list, a list that may be older.
	Struck []Fault
	// Ending describes the end, see [World.Ending].
	Ending string
	// Writes and Events are how many the manager made and got, the latter by
	// resource.
	Writes int
	Events map[string]int
	Took   time.Duration
	// Story is what has happened, for a person.
	Story []string
}

// ID names a run, such as rollout/stop/3.
func (r *Result) ID() string { return r.Workload.Name + "/" + r.Fault.String() }

// Finding is one thing that was wrong in a run.
type Finding struct {
	// About is the name of an invariant, or end, quiet, stuck or exit.
	About string
	Says  string
	// Story is the shortest history that shows it.
	Story []string
}

// stage is a run while it is played.
type stage struct {
	*Player
	workload   *Workload
	fault      Fault
	elects     bool // managers elect a leader
	manager    *play.Manager
	wanted     string // the ending, or empty if any is right
	namespace  string
	traffic    *traffic
	recording  *history.Recording
	kubeconfig string
	began      time.Time
	checked    time.Time // until when the invariants count; zero is for ever

	mu       sync.Mutex
	managers []*process.Process
	ended    map[*process.Process]bool // by us
	deeds    []deed

	striking sync.Mutex // one after the other
	helping  sync.Once
	over     bool  // then nothing strikes any more
	err      error // of what a fault does
}

// deed is something that was done from outside.
type deed struct {
	at   time.Time
	what string
}

func (s *stage) did(at time.Time, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deeds = append(s.deeds, deed{at, what})
}

// Play plays a workload with a fault. The ending is the one that it is to have;
// if it is empty, any is right. An error is one of the lab, and says nothing
// about the manager.
func (p *Player) Play(ctx context.Context, m *play.Manager, w *Workload, fault Fault, ending string) (*Result, error) {
	s := &stage{Player: p, workload: w, fault: fault, elects: fault.Name == "freeze", manager: m, wanted: ending}
	result, err := s.perform(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s/%s with %s: %w", w.Name, fault, m.Name, err)
	}
	return result, nil
}

func (s *stage) perform(ctx context.Context) (*Result, error) {
	s.began, s.ended = time.Now(), map[*process.Process]bool{}
	ctx, cancel := context.WithTimeout(ctx, 5*patience)
	defer cancel()
	if err := s.setUp(ctx); err != nil {
		return nil, err
	}
	defer s.cleanUp()
	recorded, stop := context.WithCancel(ctx)
	defer stop()
	if err := s.record(recorded); err != nil {
		return nil, err
	}
	server, err := proxy.Start(s.cluster.RESTConfig(s.user()), s.kubeconfig, s.traffic.wrap)
	if err != nil {
		return nil, err
	}
	defer proxy.Close(server)
	defer s.endManagers()
	if s.workload.Bare {
		s.traffic.count()
	}
	if err := s.startManager(ctx); err != nil {
		return nil, err
	}
	s.traffic.count()
	result := &Result{Workload: s.workload, Fault: s.fault, Manager: s.manager}
	if stuck := s.playWorkload(ctx); ctx.Err() != nil {
		return nil, context.Cause(ctx)
	} else if stuck != "" {
		result.Findings = append(result.Findings, Finding{About: "stuck", Says: stuck})
	} else if err := s.end(ctx, result); err != nil {
		return nil, err
	}
	result.Took = time.Since(s.began)
	return result, s.judge(ctx, result)
}

// playWorkload plays the workload's script, and returns why it could not go on.
func (s *stage) playWorkload(ctx context.Context) (stuck string) {
	teller := &teller{stage: s}
	setting := &play.Setting{
		Cluster: s.cluster, Manager: s.manager, Namespace: s.namespace, Manifests: []string{filepath.Dir(s.workload.script.Path)},
		Narrator: teller, Patience: patience,
	}
	if _, err := setting.Perform(ctx, s.workload.script, "NS="+s.namespace); err != nil {
		return cmp.Or(teller.why, err.Error())
	}
	return ""
}

// teller keeps what a script does.
type teller struct {
	*stage
	why string
}

func (t *teller) Waiting(what string) {
	if what == "delete namespace/"+t.namespace {
		t.checkUntil(time.Now()) // from now on all is deleted, in any order
	}
}

func (t *teller) Did(line string, took time.Duration) { t.did(time.Now().Add(-took), line) }
func (t *teller) Say(text string)                     { t.did(time.Now(), text) }
func (t *teller) Step(_ context.Context, _ int, sentence string) error {
	t.did(time.Now(), sentence)
	return nil
}

func (t *teller) Title(string)                       {}
func (t *teller) Skipped(string)                     {}
func (t *teller) Passed(time.Duration)               {}
func (t *teller) Failed(_ time.Duration, why string) { t.why = why }

func (s *stage) user() cluster.User {
	if s.manager.Reference {
		return cluster.Reference
	}
	return cluster.KCM
}

// setUp makes a namespace in which pods can run.
func (s *stage) setUp(ctx context.Context) error {
	created, err := s.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: s.workload.Name + "-"}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a namespace: %w", err)
	}
	s.namespace = created.Name
	s.kubeconfig = filepath.Join(s.dir, s.namespace+".kubeconfig")
	s.traffic = newTraffic(s.namespace, s.collections, s.fault)
	if s.workload.Bare {
		return nil
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := s.client.CoreV1().ServiceAccounts(s.namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the account of pods: %w", err)
	}
	return nil
}

// theThree are always recorded.
var theThree = []string{"deployments", "replicasets", "pods"}

var recordable = map[string]schema.GroupVersionResource{
	"deployments":            {Group: "apps", Version: "v1", Resource: "deployments"},
	"replicasets":            {Group: "apps", Version: "v1", Resource: "replicasets"},
	"pods":                   {Version: "v1", Resource: "pods"},
	"replicationcontrollers": {Version: "v1", Resource: "replicationcontrollers"},
	"daemonsets":             {Group: "apps", Version: "v1", Resource: "daemonsets"},
	"controllerrevisions":    {Group: "apps", Version: "v1", Resource: "controllerrevisions"},
	"serviceaccounts":        {Version: "v1", Resource: "serviceaccounts"},
	"configmaps":             {Version: "v1", Resource: "configmaps"},
	"jobs":                   {Group: "batch", Version: "v1", Resource: "jobs"},
	"secrets":                {Version: "v1", Resource: "secrets"},
	"services":               {Version: "v1", Resource: "services"},
	"endpoints":              {Version: "v1", Resource: "endpoints"},
	"resourcequotas":         {Version: "v1", Resource: "resourcequotas"},
	"endpointslices":         {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
}

func (s *stage) api(resource string) dynamic.ResourceInterface {
	return s.dynamic.Resource(recordable[resource]).Namespace(s.namespace)
}

func (s *stage) record(ctx context.Context) (err error) {
	clients := map[string]dynamic.ResourceInterface{}
	for _, resource := range append(slices.Clone(theThree), s.workload.Recorded...) {
		clients[resource] = s.api(resource)
	}
	s.recording, err = history.Record(ctx, clients)
	return err
}

// startManager starts one and returns when it watches what the workload is about.
func (s *stage) startManager(ctx context.Context) error {
	s.traffic.strike = func(fault Fault) {
		s.striking.Lock()
		defer s.striking.Unlock()
		if s.over {
			return
		}
		if err := s.strike(ctx, fault); err != nil {
			s.mu.Lock()
			s.err = errors.Join(s.err, err)
			s.mu.Unlock()
		}
	}
	if err := s.start(); err != nil {
		return err
	}
	return await.Until(ctx, every, 2*patience, "the manager watches what the workload is about", func(context.Context) error {
		if !s.managers[0].Running() {
			return await.Fatal(fmt.Errorf("it has ended:\n%s", process.LastLines(s.managers[0].Log.String(), 5)))
		}
		if !s.traffic.watches(s.workload.Watched) {
			return errors.New(process.LastLines(s.managers[0].Log.String(), 3))
		}
		return nil
	})
}

func (s *stage) start() error {
	flags := []string{"--kubeconfig=" + s.kubeconfig, "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000"}
	if s.elects {
		flags = append(flags, "--leader-elect-resource-namespace="+s.namespace,
			"--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=500ms")
	} else {
		flags = append(flags, "--leader-elect=false")
	}
	p, err := s.manager.Start(s.workload.Loops, flags...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.managers = append(s.managers, p)
	return nil
}

func (s *stage) endManagers() {
	s.striking.Lock()
	defer s.striking.Unlock()
	s.over = true
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.managers {
		s.ended[p] = true
		p.Cmd.Process.Signal(syscall.SIGCONT) // it may have ended
		p.Kill()
	}
}

// strike does what a fault does outside of the proxy.
func (s *stage) strike(ctx context.Context, fault Fault) error {
	switch fault.Name {
	case "stop", "older":
		s.did(time.Now(), "the manager is killed, and started anew")
		s.endLeader().Kill()
		return s.start()
	case "freeze":
		s.did(time.Now(), "the leader is frozen, and another manager started")
		leader := s.endLeader() // it is to end when it wakes up
		s.traffic.mu.Lock()
		s.traffic.onWrite = func() {
			s.did(time.Now(), "the frozen leader wakes up")
			leader.Cmd.Process.Signal(syscall.SIGCONT) // it cannot have ended
		}
		s.traffic.mu.Unlock()
		return errors.Join(leader.Cmd.Process.Signal(syscall.SIGSTOP), s.start())
	case "apiserver", "etcd":
		return s.killControlPlane(ctx, fault)
	}
	return nil
}

// endLeader returns the manager that works, which may end from now on: the first
// one of which that cannot be said yet.
func (s *stage) endLeader() *process.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.managers, func(p *process.Process) bool { return !s.ended[p] })
	s.ended[s.managers[i]] = true
	return s.managers[i]
}

// killControlPlane kills and starts anew what a fault says. Scheduler and nodes
// are started anew, too: how they get over it is not the question.
func (s *stage) killControlPlane(ctx context.Context, fault Fault) error {
	s.did(time.Now(), "the "+fault.Name+" is killed, and started anew")
	killed := []cluster.Component{cluster.APIServer}
	if fault.Name == "etcd" {
		killed = []cluster.Component{cluster.Etcd, cluster.APIServer}
	}
	for _, component := range killed {
		if err := s.cluster.Kill(ctx, component); err != nil {
			return err
		}
	}
	if err := s.restart(ctx, append(killed, nodes...)...); err != nil {
		return err
	}
	s.helping.Do(func() { go s.helpNodes(ctx) })
	return nil
}

func (s *stage) restart(ctx context.Context, components ...cluster.Component) error {
	for _, component := range components {
		if err := s.cluster.Restart(ctx, component); err != nil {
			return err
		}
	}
	return nil
}

// nodes are the components that have pods run.
var nodes = []cluster.Component{cluster.Scheduler, cluster.Kwok}

// overlooked is after how long a pod counts as overlooked that is to start or to
// end.
const overlooked = 10 * time.Second

// helpNodes has pods start and end that were overlooked, until ctx ends:
// simulated nodes that are started at the moment at which a pod is made or
// deleted may do that. It does what a kubelet does after a deletion. A pod that
// waits to be run is touched, so that they look at it; if that does not help,
// they are started anew.
func (s *stage) helpNodes(ctx context.Context) {
	pods := s.client.CoreV1().Pods(s.namespace)
	for pause(ctx, overlooked) == nil {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			continue // the next time
		}
		var longest time.Duration
		for _, pod := range list.Items {
			// What fails is tried again.
			switch {
			case stays(&pod) && pod.Status.Phase == corev1.PodPending:
				longest = max(longest, time.Since(pod.CreationTimestamp.Time))
				touch := fmt.Sprintf(`{"metadata":{"annotations":{"lab.kcm-book.io/touched":%q}}}`, time.Now())
				_, _ = pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(touch), metav1.PatchOptions{})
			case !stays(&pod) && time.Since(pod.DeletionTimestamp.Time) > overlooked-time.Duration(*pod.DeletionGracePeriodSeconds)*time.Second:
				_ = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
			}
		}
		if longest > 2*overlooked {
			s.striking.Lock()
			s.did(time.Now(), "the nodes are started anew, because a pod waits for them")
			_ = s.restart(ctx, nodes...)
			s.striking.Unlock()
		}
	}
}

// catchUp returns when all that has happened is recorded. While the API server
// is away it asks again.
func (s *stage) catchUp(ctx context.Context) error {
	return await.Until(ctx, every, patience, "all that has happened is recorded", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err := s.recording.CatchUp(ctx)
		return err
	})
}

func (s *stage) world() (*World, error) {
	changes, err := s.recording.Changes()
	if err != nil {
		return nil, err
	}
	return worldAfter(changes)
}

// end waits until all is as it is to be in the end, and nothing is written.
func (s *stage) end(ctx context.Context, result *Result) error {
	var wrong string
	err := await.Until(ctx, every, patience, "all is at its end", func(ctx context.Context) (err error) {
		writes, _, struck := s.traffic.seen()
		if result.Ending, err = s.ending(ctx); err != nil {
			return await.Fatal(err)
		}
		wrong = ""
		if s.wanted != "" && result.Ending != s.wanted {
			wrong = "it ends otherwise than without the fault:\n" + difference(s.wanted, result.Ending)
		}
		var last time.Time
		if len(struck) > 0 {
			last = struck[len(struck)-1].at
		}
		if len(writes) > 0 && writes[len(writes)-1].At.After(last) {
			last = writes[len(writes)-1].At
		}
		switch {
		case wrong != "":
			return errors.New(wrong)
		case time.Since(last) < quiet:
			return fmt.Errorf("there are %d writes so far", len(writes))
		}
		return nil
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return err
	case wrong != "":
		result.Findings = append(result.Findings, Finding{About: "end", Says: wrong})
	default:
		result.Findings = append(result.Findings, Finding{About: "quiet", Says: "it does not stop to write: " + err.Error()})
	}
	return nil
}

func (s *stage) ending(ctx context.Context) (string, error) {
	if !s.workload.Goes {
		world, err := s.world()
		if err != nil {
			return "", err
		}
		return world.Ending(), nil
	}
	_, err := s.client.CoreV1().Namespaces().Get(ctx, s.namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "the namespace is gone", nil
	}
	return "the namespace is there", nil
}

// difference shows the lines that two endings do not share.
func difference(wanted, seen string) string {
	left := map[string]int{}
	for line := range strings.SplitSeq(seen, "\n") {
		left[line]++
	}
	var b strings.Builder
	for line := range strings.SplitSeq(wanted, "\n") {
		if left[line] > 0 {
			left[line]--
			continue
		}
		fmt.Fprintln(&b, "  - "+line)
	}
	for _, line := range slices.Sorted(maps.Keys(left)) {
		for range left[line] {
			fmt.Fprintln(&b, "  + "+line)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// judge looks at what has happened.
func (s *stage) judge(ctx context.Context, result *Result) error {
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	changes, err := s.recording.Changes()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	writes, events, struck := s.traffic.seen()
	result.Writes, result.Events = len(writes), events
	for _, each := range struck {
		result.Struck = append(result.Struck, each.fault)
		if each.fault.Alone {
			s.checkUntil(each.at) // after that some changes may have been missed
		}
	}
	for _, p := range s.managers {
		if !s.ended[p] && !p.Running() {
			result.Findings = append(result.Findings, Finding{About: "exit", Says: "the manager has ended; its log ends:\n" + process.LastLines(p.Log.String(), 5)})
		}
	}
	checked := slices.DeleteFunc(slices.Clone(changes), func(c history.Change) bool {
		return !s.checked.IsZero() && c.Seen.After(s.checked)
	})
	violations, err := check(checked)
	if err != nil {
		return err
	}
	result.Story = s.story(changes, writes)
	for _, v := range violations {
		result.Findings = append(result.Findings, Finding{v.Invariant, v.Says, s.story(changes[:v.Change+1], nil)})
	}
	return nil
}

// checkUntil has the invariants count until then.
func (s *stage) checkUntil(then time.Time) {
	if s.checked.IsZero() || then.Before(s.checked) {
		s.checked = then
	}
}

// cleanUp deletes what runs in the namespace. The namespace stays: nobody works
// for all namespaces.
func (s *stage) cleanUp() {
	os.Remove(s.kubeconfig) // it is one of many in a directory that goes
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), PropagationPolicy: new(metav1.DeletePropagationBackground)}
	for _, resource := range append(theThree[:3:3], s.workload.Recorded...) {
		// What is left behind harms nobody.
		_ = s.api(resource).DeleteCollection(ctx, now, metav1.ListOptions{})
	}
}
