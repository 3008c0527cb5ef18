package odd

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/labs/canary"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/process"
	"github.com/kcm-book/kcm-book/labs/proxy"
)

const (
	// settling is how long nothing is changed before it counts what the loops do, and quiet how long it counts then.
	settling, quiet = 10 * time.Second, 20 * time.Second
	// late is when a canary's loop counts as stopped, beside its period.
	late = 30 * time.Second
	// going is how long namespaces may take to go.
	going = 2 * time.Minute
	every = time.Second
)

// Player plays draws, one after the other, on a cluster of its own with one manager, which runs all its loops with the
// rate limits that it has by default.
type Player struct {
	cluster *cluster.Cluster
	process *process.Process
	port    string
	client  dynamic.Interface
	kube    kubernetes.Interface

	proxy      *httptest.Server
	faulty     bool
	disturbing atomic.Bool  // while operations are sent
	faults     atomic.Int64 // since they began to be sent
}

// Start starts a cluster and a manager: the program, or the original. If it is to be faulty, the API server refuses
// some of the manager's writes, and some answers are lost, while operations are sent.
func Start(ctx context.Context, program string, reference, faulty bool) (_ *Player, err error) {
	c, err := cluster.StartEmbedded(ctx)
	if err != nil {
		return nil, err
	}
	p := newPlayer(c)
	p.faulty = faulty
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	m, err := play.NewManager(ctx, c, reference, program)
	if err != nil {
		return nil, err
	}
	user := cluster.KCM
	if reference {
		user = cluster.Reference
	}
	kubeconfig := filepath.Join(c.Dir(), "disturbed.kubeconfig")
	if p.proxy, err = proxy.Start(c.RESTConfig(user), kubeconfig, p.disturb); err != nil {
		return nil, err
	}
	if p.port, err = process.FreePort(); err != nil {
		return nil, err
	}
	flags := []string{"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=" + p.port}
	if p.process, err = m.Start(m.Loops, flags...); err != nil {
		return nil, err
	}
	return p, nil
}

func newPlayer(c *cluster.Cluster) *Player {
	config := c.RESTConfig(cluster.Admin)
	config.WarningHandler = rest.NoWarnings{}
	return &Player{cluster: c, client: dynamic.NewForConfigOrDie(config), kube: kubernetes.NewForConfigOrDie(config)}
}

// Close ends the manager and the cluster.
func (p *Player) Close() error {
	if p.process != nil {
		p.process.Kill()
	}
	if p.proxy != nil {
		proxy.Close(p.proxy)
	}
	return p.cluster.Close()
}

// Result is what came of a draw.
type Result struct {
	// Sent are the operations that were sent before the manager ended, if it did, and Taken how many of them the API
	// server has taken.
	Sent  []Op
	Taken int
	// Faults is how many writes of the manager were refused or got no answer.
	Faults   int
	Findings []Finding
	// Metrics are what the manager says of itself in the end.
	Metrics map[string]int
}

// Finding is something that is not as it should be.
type Finding struct{ About, Says string }

// Play sends operations of a draw, and looks whether the manager bears them. If about is not empty, it looks for
// nothing else. An error is one of the lab, and says nothing about the manager.
func (p *Player) Play(ctx context.Context, seed uint64, ops []Op, about string) (*Result, error) {
	r := &round{Player: p, seed: seed, about: about, uids: map[string]types.UID{}}
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // which ends with the player
		<-p.process.Exited
		cancel()
	}()
	err := r.play(alive, ops)
	if ctx.Err() != nil || err != nil && alive.Err() == nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	r.lookForPanics()
	return &r.Result, nil
}

// round is a draw while it is played.
type round struct {
	*Player
	seed  uint64
	about string
	uids  map[string]types.UID // by promise
	mu    sync.Mutex           // for findings
	Result
}

func (r *round) wants(about string) bool { return r.about == "" || r.about == about }

func (r *round) found(about, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wants(about) {
		r.Findings = append(r.Findings, Finding{about, fmt.Sprintf(format, args...)})
	}
}

func (r *round) play(ctx context.Context, ops []Op) (err error) {
	if err := r.setUp(ctx); err != nil {
		return err
	}
	r.faults.Store(0)
	r.disturbing.Store(r.faulty)
	r.sendAll(ctx, ops)
	r.disturbing.Store(false)
	r.Faults = int(r.faults.Load())
	if r.wants("panic") || r.wants("hot") || r.wants("unmade") {
		sleep(ctx, settling)
	}
	if r.about != "panic" && r.about != "namespaces" {
		if err := r.beQuiet(ctx); err != nil {
			return err
		}
	}
	if !r.wants("namespaces") {
		return nil
	}
	if err := r.cleanUp(ctx); err != nil {
		return err
	}
	r.Metrics, err = r.metrics(ctx)
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

//go:embed setup.txtar
var setUp string

// setUp creates the namespaces.
func (r *round) setUp(ctx context.Context) error {
	script, err := play.ParseScript("setup.txtar", setUp)
	for _, name := range Namespaces(r.seed) {
		if err == nil {
			_, err = (&play.Setting{Cluster: r.cluster}).Perform(ctx, script, "NS="+name)
		}
	}
	return err
}

// api talks about objects of a kind. Those of some are in no namespace, which is "".
func (p *Player) api(k *Kind, namespace string) dynamic.ResourceInterface {
	return p.client.Resource(k.resource()).Namespace(namespace)
}

// sendAll sends operations, and tries one loop after the other meanwhile.
func (r *round) sendAll(ctx context.Context, ops []Op) {
	meanwhile, stop := context.WithCancel(ctx)
	var tries sync.WaitGroup
	tries.Go(func() {
		for i := 0; r.about == "" && meanwhile.Err() == nil; i = (i + 1) % len(canary.All) {
			if canary.All[i].Period.Duration == 0 {
				r.try(meanwhile, i)
			}
		}
	})
	for i, op := range ops {
		r.Sent = ops[:i+1]
		err := r.send(ctx, op)
		if ctx.Err() != nil {
			break
		}
		if err == nil {
			r.Taken++
		}
		sleep(ctx, op.Pause)
	}
	stop()
	tries.Wait()
}

// promised is what stands for a UID in the text of a body.
var promised = regexp.MustCompile(`"uid:[^"]*"`)

// send sends an operation. The answer says whether the API server takes it.
func (r *round) send(ctx context.Context, op Op) error {
	api, name := r.api(op.Kind, op.Namespace), op.Name
	if name == "" {
		list, err := api.List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return fmt.Errorf("there is none: %w", err)
		}
		name = list.Items[op.Which%len(list.Items)].GetName()
	}
	if op.Verb == "delete" {
		return api.Delete(ctx, name, op.How)
	}
	object := op.object(name)
	body, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	body = promised.ReplaceAllFunc(body, func(promise []byte) []byte {
		uid := r.uids[strings.Trim(string(promise), `"`)]
		return fmt.Appendf(nil, "%q", cmp.Or(uid, "00000000-0000-4000-8000-000000000000")) // nobody's
	})
	switch op.Verb {
	case "create":
		if err := object.UnmarshalJSON(body); err != nil {
			return err
		}
		created, err := api.Create(ctx, object, metav1.CreateOptions{})
		if err == nil {
			r.uids[promise(op)] = created.GetUID()
		}
		return err
	case "status":
		_, err = api.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	default:
		_, err = api.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	}
	return err
}

// canaries is how the names of the canaries' namespaces begin.
const canaries = "canary-"

// try tries a loop with a canary. An end of ctx is no finding.
func (r *round) try(ctx context.Context, i int) {
	c := canary.All[i]
	about := "canary: " + c.Does
	if !r.wants(about) {
		return
	}
	if err := c.Try(ctx, r.cluster, fmt.Sprint(canaries, i), late); err != nil && ctx.Err() == nil {
		r.found(about, "%v", err)
	}
}

// beQuiet changes nothing for a while, looks what the manager does meanwhile, and tries all loops.
func (r *round) beQuiet(ctx context.Context) (err error) {
	var tries sync.WaitGroup
	for i := range canary.All {
		tries.Go(func() { r.try(ctx, i) })
	}
	if r.wants("hot") || r.wants("unmade") {
		err = r.watchQuiet(ctx)
	}
	tries.Wait()
	return errors.Join(ctx.Err(), err)
}

// cleanUp deletes all that was drawn, policies early, for they might forbid the rest. The manager has to empty the
// namespaces. It is a finding if they do not go though all finalizers are taken away that none of its loops takes away.
func (r *round) cleanUp(ctx context.Context) error {
	for until := time.Now().Add(going); ; sleep(ctx, every) {
		left, namespaces := 0, []string(nil)
		for _, k := range slices.Backward(Kinds) {
			list, err := r.api(k, "").List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // there is no such kind now
			}
			if err != nil {
				return err
			}
			for _, o := range list.Items {
				if !r.drew(k, o) {
					continue
				}
				if err := r.end(ctx, k, o); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					return fmt.Errorf("%s %s/%s: %w", k, o.GetNamespace(), o.GetName(), err)
				}
				if left++; k.Kind == "Namespace" {
					namespaces = append(namespaces, fmt.Sprintf("%s: %v", o.GetName(), o.Object["status"]))
				}
			}
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(until) {
			if len(namespaces) > 0 {
				r.found("namespaces", "still there after %v: %s", going, strings.Join(namespaces, "\n"))
			}
			return nil
		}
	}
}

// drew tells whether an object belongs to the draw.
func (r *round) drew(k *Kind, o unstructured.Unstructured) bool {
	elsewhere := k.Kind == "CustomResourceDefinition" || k.Kind == "Secret" && o.GetNamespace() == metav1.NamespaceSystem
	return strings.HasPrefix(o.GetNamespace()+o.GetName(), own(r.seed, "")) ||
		elsewhere && slices.Contains(k.Names, o.GetName())
}

// end deletes an object, unless it goes with its namespace, and takes away its finalizers but those that a loop takes
// away: that of Jobs from pods that nothing else controls, those for dependents from all but events, which the garbage
// collector does not look at, and nodes, whose dependents may wait for pods that the lab does not end when a node goes.
func (r *round) end(ctx context.Context, k *Kind, o unstructured.Unstructured) error {
	api := r.api(k, o.GetNamespace())
	if o.GetDeletionTimestamp() == nil && !strings.HasPrefix(o.GetNamespace(), own(r.seed, "")) {
		return api.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
	}
	if k.Kind == "CustomResourceDefinition" {
		return nil // its finalizer is the API server's
	}
	owner := metav1.GetControllerOf(&o)
	mayBeOfJob := k.Kind == "Pod" && (owner == nil || owner.Kind == "Job")
	kept := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool {
		ofDependents := f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
		return !(ofDependents && k.Kind != "Event" && k.Kind != "Node" || f == batchv1.JobTrackingFinalizer && mayBeOfJob)
	})
	if len(kept) < len(o.GetFinalizers()) {
		if k.Kind == "Node" {
			// With a status that was drawn it may be too odd to be updated.
			valid := []byte(`{"status":{"nodeInfo":null},"metadata":{"resourceVersion":"` + o.GetResourceVersion() + `"}}`)
			node, err := api.Patch(ctx, o.GetName(), types.MergePatchType, valid, metav1.PatchOptions{}, "status")
			if err != nil {
				return err
			}
			o = *node
		}
		o.SetFinalizers(kept)
		_, err := api.Update(ctx, &o, metav1.UpdateOptions{})
		return err
	}
	ofNamespace, _, _ := unstructured.NestedSlice(o.Object, "spec", "finalizers")
	ofLoop := slices.DeleteFunc(slices.Clone(ofNamespace), func(f any) bool { return f != string(corev1.FinalizerKubernetes) })
	if k.Kind == "Namespace" && len(ofLoop) < len(ofNamespace) {
		o.Object["spec"] = map[string]any{"finalizers": ofLoop}
		_, err := api.Update(ctx, &o, metav1.UpdateOptions{}, "finalize")
		return err
	}
	return nil
}
