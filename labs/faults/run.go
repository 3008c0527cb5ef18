package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/labs/await"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/process"
	"github.com/kcm-book/kcm-book/labs/proxy"
)

const (
	// patience is how long a step and the end may take. A machine that has much else to do is no mistake of the manager.
	patience = time.Minute
	// quiet is for how long nothing may be written in the end.
	quiet = time.Second
	every = 20 * time.Millisecond
	// soon is when at the latest a write is tried again that a policy has refused, after the policy's end: four times as
	// long as the pause of a queue's key can have become until then.
	soon = 20 * time.Second
)

// Player plays runs on a control plane of its own, several at the same time unless one of them is to be alone.
type Player struct {
	*cluster.Cluster
	manager     *play.Manager
	client      kubernetes.Interface
	dynamic     dynamic.Interface
	collections map[string]bool
	single      sync.Mutex // held by the run of a workload of which there is one at a time
}

// Start starts a control plane for runs with kcm, which is a program, or with the original. The caller closes the
// player.
func Start(ctx context.Context, program string, reference bool) (*Player, error) {
	c, err := cluster.StartEmbedded(ctx, cluster.Options{Nodes: 2})
	if err != nil {
		return nil, err
	}
	config := c.RESTConfig(cluster.Admin)
	config.WarningHandler = rest.NoWarnings{} // Endpoints are deprecated, and recorded
	p := &Player{Cluster: c, client: kubernetes.NewForConfigOrDie(config), dynamic: dynamic.NewForConfigOrDie(config)}
	p.manager, err = play.NewManager(ctx, c, reference, program)
	if err == nil {
		p.collections, err = collectionsOf(p.client)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return p, nil
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
	Spec
	// Findings are what was wrong, or nothing.
	Findings []Finding
	// Struck tells that the fault has happened: there was such a write or event, and, for an older list, a list that may
	// be older.
	Struck bool
	// Ending describes the end.
	Ending string
	// Writes and Events are how many the manager made and got, the latter by resource.
	Writes int
	Events map[string]int
	// First are the numbers of the first writes of each kind: of each verb, resource and subresource.
	First []int
	Took  time.Duration
	// Story is what has happened, for a person.
	Story []string
}

// Finding is one thing that was wrong in a run.
type Finding struct {
	// About is the name of an invariant, or end, quiet, stuck, late or exit.
	About string
	Says  string
	// Story is the shortest history that shows it, or nothing where that is the whole one.
	Story []string
}

// stage is a run while it is played.
type stage struct {
	*Player
	Spec
	wanted     string // the ending, or empty if any is right
	namespace  string
	traffic    *traffic
	recording  *history.Recording
	kubeconfig string
	began      time.Time

	mu       sync.Mutex
	managers []*process.Process // the first one leads
	former   []*process.Process // may end
	deeds    []line             // what was done from outside
	err      error              // of what a fault does

	striking sync.Mutex // what a fault does outside of the proxy, one after the other
	over     bool       // then nothing strikes any more
}

func (s *stage) did(at time.Time, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deeds = append(s.deeds, line{at, "-- " + what})
}

// Play plays a run. The ending is the one that it is to have; if it is empty, any is right. An error is one of the lab,
// and says nothing about the manager.
func (p *Player) Play(ctx context.Context, spec Spec, ending string) (_ *Result, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", spec, err)
		}
	}()
	if spec.Workload.Single {
		p.single.Lock()
		defer p.single.Unlock()
	}
	s := &stage{Player: p, Spec: spec, wanted: ending, began: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, 5*patience)
	defer cancel()
	if err := s.setUp(ctx); err != nil {
		return nil, err
	}
	defer s.cleanUp()
	recorded, stop := context.WithCancel(ctx)
	defer stop()
	if s.recording, err = history.Record(recorded, s.recorded()); err != nil {
		return nil, err
	}
	user := cluster.KCM
	if s.manager.Reference {
		user = cluster.Reference
	}
	server, err := proxy.Start(s.RESTConfig(user), s.kubeconfig, s.traffic.wrap)
	if err != nil {
		return nil, err
	}
	defer proxy.Close(server)
	defer s.endManagers()
	if err := s.startManager(ctx); err != nil {
		return nil, err
	}
	result := &Result{Spec: s.Spec}
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
	teller := &teller{Narrator: play.NewTeller(io.Discard, false), stage: s}
	script := s.Workload.script
	setting := &play.Setting{
		Cluster: s.Cluster, Manager: s.manager, Namespace: s.namespace, Manifests: []string{filepath.Dir(script.Path)},
		Narrator: teller, Patience: patience,
	}
	if _, err := setting.Perform(ctx, script, "NS="+s.namespace); err != nil {
		return cmp.Or(teller.why, err.Error())
	}
	return ""
}

// teller keeps what a script does.
type teller struct {
	play.Narrator
	stage *stage
	why   string // it has failed
}

func (t *teller) Did(line string, took time.Duration) { t.stage.did(time.Now().Add(-took), line) }
func (t *teller) Failed(_ time.Duration, why string)  { t.why = why }

// setUp makes a namespace in which pods can run.
func (s *stage) setUp(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: s.Workload.Name + "-"}}
	created, err := s.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a namespace: %w", err)
	}
	s.namespace = created.Name
	s.kubeconfig = filepath.Join(s.Dir, "kubeconfig", s.namespace+".kubeconfig")
	s.traffic = newTraffic(s.namespace, s.collections, s.Fault, func(fault Fault) { s.strike(ctx, fault) })
	s.traffic.labelled, s.traffic.elsewhere = s.Workload.Labelled, s.Workload.Elsewhere
	s.traffic.late = cmp.Or(s.Workload.Late.Duration, lateness)
	if s.Workload.Bare {
		return nil
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := s.client.CoreV1().ServiceAccounts(s.namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the account of pods: %w", err)
	}
	return nil
}

// recorded are the resources of which each state is kept.
func (s *stage) recorded() map[string]dynamic.ResourceInterface {
	clients := map[string]dynamic.ResourceInterface{}
	for group, resources := range map[schema.GroupVersion][]string{
		appsv1.SchemeGroupVersion: {"deployments", "replicasets", "daemonsets", "controllerrevisions"},
		corev1.SchemeGroupVersion: {"pods", "replicationcontrollers", "serviceaccounts", "configmaps", "secrets", "services",
			"endpoints", "resourcequotas"},
		batchv1.SchemeGroupVersion:     {"jobs"},
		discoveryv1.SchemeGroupVersion: {"endpointslices"},
	} {
		for _, resource := range resources {
			clients[resource] = s.dynamic.Resource(group.WithResource(resource)).Namespace(s.namespace)
		}
	}
	return clients
}

// startManager starts one and returns when it watches what the workload is about.
func (s *stage) startManager(ctx context.Context) error {
	if err := s.start(); err != nil {
		return err
	}
	what := "the manager watches what the workload is about"
	return await.Until(ctx, every, 2*patience, what, func(context.Context) error {
		if says, ended := s.ended(); ended {
			return await.Fatal(errors.New(says))
		}
		if !s.traffic.watches(s.Workload.Watched) {
			return errors.New("it does not yet")
		}
		return nil
	})
}

func (s *stage) start() error {
	flags := []string{"--kubeconfig=" + s.kubeconfig, "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000",
		"--leader-elect=" + strconv.FormatBool(s.Fault.Name == "freeze"), "--leader-elect-resource-namespace=" + s.namespace,
		"--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=500ms"}
	p, err := s.manager.Start(s.Workload.Loops, append(flags, s.Workload.Flags...)...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.managers = append(s.managers, p)
	return nil
}

// ended tells whether a manager has ended that was to go on, and how.
func (s *stage) ended() (says string, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.managers, func(p *process.Process) bool { return !p.Running() })
	if i < 0 {
		return "", false
	}
	return "the manager has ended; its log ends:\n" + process.LastLines(s.managers[i].Log.String(), 5), true
}

func (s *stage) endManagers() {
	s.striking.Lock()
	defer s.striking.Unlock()
	s.over = true
	for _, p := range slices.Concat(s.managers, s.former) {
		p.Kill()
	}
}

// strike does what a fault does outside of the proxy.
func (s *stage) strike(ctx context.Context, fault Fault) {
	s.striking.Lock()
	defer s.striking.Unlock()
	if s.over {
		return
	}
	var err error
	switch fault.Name {
	case "stop", "older":
		s.did(time.Now(), "the manager is killed, and started anew")
		s.takeLeader().Kill()
		err = s.start()
	case "freeze":
		s.did(time.Now(), "the leader is frozen, and another manager started")
		leader := s.takeLeader() // it is to end when it wakes up
		s.traffic.atNextWrite(func() {
			s.did(time.Now(), "the frozen leader wakes up")
			leader.Cmd.Process.Signal(syscall.SIGCONT) // it cannot have ended
		})
		err = errors.Join(leader.Cmd.Process.Signal(syscall.SIGSTOP), s.start())
	default:
		s.did(time.Now(), fmt.Sprintf("%s killed, and started anew", fault.kills))
		for _, component := range fault.kills {
			err = errors.Join(err, s.Disturb(ctx, "kill", component))
		}
		for _, component := range fault.kills {
			err = errors.Join(err, s.Disturb(ctx, "restart", component))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.Join(s.err, err)
}

// takeLeader returns the manager that works, which may end from now on.
func (s *stage) takeLeader() *process.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	leader := s.managers[0]
	s.managers, s.former = s.managers[1:], append(s.former, leader)
	return leader
}

// end waits until all is as it is to be in the end, and nothing is written.
func (s *stage) end(ctx context.Context, result *Result) error {
	about := "end"
	err := await.Until(ctx, every, patience, "all is at its end", func(context.Context) error {
		changes, err := s.recording.Changes()
		if err == nil {
			result.Ending, err = endingOf(changes)
		}
		if err != nil {
			return await.Fatal(err)
		}
		if about = "end"; s.wanted != "" && result.Ending != s.wanted {
			changes := diff.Diff("without the fault", []byte(s.wanted), "with it", []byte(result.Ending))
			return fmt.Errorf("it ends otherwise than without the fault:\n%s", changes)
		}
		about = "quiet"
		writes, _, struck := s.traffic.seen()
		last := struck.at
		if s.Fault.lasts && !last.IsZero() {
			last = last.Add(refusal)
		}
		if len(writes) > 0 && writes[len(writes)-1].At.After(last) {
			last = writes[len(writes)-1].At
		}
		if time.Since(last) < quiet {
			return fmt.Errorf("it does not stop to write: there are %d writes so far", len(writes))
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		result.Findings = append(result.Findings, Finding{About: about, Says: err.Error()})
	}
	return context.Cause(ctx)
}

// judge looks at what has happened.
func (s *stage) judge(ctx context.Context, result *Result) error {
	s.striking.Lock() // until the API server is there again
	defer s.striking.Unlock()
	if _, err := s.recording.CatchUp(ctx); err != nil {
		return err
	}
	changes, err := s.recording.Changes()
	if err != nil {
		return err
	}
	if says, ended := s.ended(); ended {
		result.Findings = append(result.Findings, Finding{About: "exit", Says: says})
	}
	writes, events, struck := s.traffic.seen()
	result.Writes, result.Events, result.Struck = len(writes), events, !struck.at.IsZero()
	kinds := map[string]bool{}
	for i, write := range writes {
		if kind := write.kind(); !kinds[kind] {
			kinds[kind], result.First = true, append(result.First, i+1)
		}
	}
	if late := struck.again.Sub(struck.at) - refusal; !struck.again.IsZero() && late > soon {
		says := fmt.Sprintf("%s was tried again %v after it was refused no more", struck.what, late.Round(time.Second))
		result.Findings = append(result.Findings, Finding{About: "late", Says: says})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	story := s.story(changes)
	result.Story = s.told(story, time.Now())
	// After the API server was killed some changes may have been missed, and with a namespace all goes in any order.
	checked := slices.IndexFunc(changes, func(c history.Change) bool {
		missed := s.Fault.Alone() && result.Struck && c.Seen.After(struck.at)
		return missed || s.Workload.Goes && (c.Type == watch.Deleted || !stays(c.Object))
	})
	if checked >= 0 {
		changes = changes[:checked]
	}
	violations, err := NewJudge().Look(changes...)
	for _, v := range violations {
		result.Findings = append(result.Findings, Finding{v.Invariant, v.Says, s.told(story, v.Seen)})
	}
	return errors.Join(err, s.err)
}

// cleanUp deletes what runs in the namespace. The namespace stays: nobody works for all namespaces.
func (s *stage) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64), PropagationPolicy: new(metav1.DeletePropagationBackground)}
	for _, client := range s.recorded() {
		_ = client.DeleteCollection(ctx, now, metav1.ListOptions{}) // what is left behind harms nobody
	}
}

// line is one of a story.
type line struct {
	at   time.Time
	says string
}

// story is what was done from outside, written, and changed by that, in order. A change that a reader of the story
// cannot see is left out.
func (s *stage) story(changes []history.Change) []line {
	lines := slices.Clone(s.deeds)
	writes, _, struck := s.traffic.seen()
	if !struck.at.IsZero() {
		lines = append(lines, line{struck.at, fmt.Sprintf("-- FAULT %s: %s (%s)", s.Fault, s.Fault.Does, struck.what)})
	}
	for i, w := range writes {
		lines = append(lines, line{w.At, fmt.Sprintf("   write %d: %s: %d", i+1, w.What, w.Code)})
	}
	w := world{}
	for _, c := range changes {
		before, after := "", "gone"
		if was := w[c.Object.GetUID()]; was != nil {
			before = w.describe(was)
		}
		_, is, err := w.apply(c)
		if is != nil {
			after = w.describe(is)
		}
		if err == nil && before != after { // check has told of an error
			lines = append(lines, line{c.Seen, fmt.Sprintf("%s %s: %s", c.Object.GetKind(), c.Object.GetName(), after)})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	return lines
}

// told is a story until a moment, for a person.
func (s *stage) told(story []line, until time.Time) (told []string) {
	for _, l := range story {
		if !l.at.After(until) {
			told = append(told, fmt.Sprintf("%6.2f s  %s", l.at.Sub(s.began).Seconds(), l.says))
		}
	}
	return told
}
