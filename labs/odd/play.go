package odd

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
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
	// rare is of how many writes of the manager one is refused, and one done with an answer that is lost.
	rare = 20
)

// refusals are the codes of which one is drawn.
var refusals = []int{403, 409, 422, 429, 500, 504}

// Player plays draws, one after the other, on a cluster of its own with one manager, which runs all its loops with the
// rate limits that it has by default.
type Player struct {
	// Program is that of the manager, unless it is the original.
	Program   string
	Reference bool

	cluster *cluster.Cluster // nil before something is played, and after a finding
	process *process.Process
	port    string
	metrics []map[string]int // after each draw

	proxy      *httptest.Server
	disturbing atomic.Bool // while operations are sent
}

func (p *Player) start(ctx context.Context) (err error) {
	if p.cluster, err = cluster.StartEmbedded(ctx, cluster.Options{}); err != nil {
		return err
	}
	m, err := play.NewManager(ctx, p.cluster, p.Reference, p.Program)
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(p.cluster.Dir, "kubeconfig", "disturbed.kubeconfig")
	if p.proxy, err = proxy.Start(p.cluster.RESTConfig(cluster.KCM), kubeconfig, p.disturb); err != nil {
		return err
	}
	if p.port, err = process.FreePort(); err != nil {
		return err
	}
	flags := append(canary.Flags, "--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port="+p.port,
		"--legacy-service-account-token-clean-up-period=1ns") // or tokens are as they are for a year
	p.process, err = m.Start(m.Loops, flags...)
	return err
}

// Close ends the manager and the cluster, if there are any.
func (p *Player) Close() (err error) {
	if p.process != nil {
		p.process.Kill()
	}
	if p.proxy != nil {
		proxy.Close(p.proxy)
	}
	if p.cluster != nil {
		err = p.cluster.Close()
	}
	p.process, p.proxy, p.cluster, p.metrics = nil, nil, nil, nil
	return err
}

// disturb is what passes between a manager and the API server: while operations are sent, some of its writes are
// refused, and some answers lost.
func (p *Player) disturb(next proxy.RoundTripper) proxy.RoundTripper {
	return func(request *http.Request) (*http.Response, error) {
		at := rand.N(rare)
		if at > 1 || request.Method == http.MethodGet || !p.disturbing.Load() {
			return next(request)
		}
		if at == 0 {
			return proxy.Refuse(request, refusals[rand.N(len(refusals))]), nil
		}
		if response, err := next(request); err == nil {
			response.Body.Close()
		}
		return nil, proxy.ErrBroken
	}
}

// Result is what came of a draw.
type Result struct {
	Taken    int // how many operations the API server has taken, before the manager ended, if it did
	Findings []Finding
	// Metrics are what the manager says of itself in the end.
	Metrics map[string]int
}

// Finding is something that is not as it should be.
type Finding struct{ About, Says string }

// Play sends operations of a draw, and looks whether the manager bears them. If about is not empty, it looks no longer
// than it takes to find that. After a finding, or if there might have been one, the cluster ends: what is left there
// might disturb what is played next. Without a result there is an error of the lab, which says nothing about the
// manager.
func (p *Player) Play(ctx context.Context, seed uint64, ops []Op, about string) (*Result, error) {
	if p.cluster == nil {
		if err := p.start(ctx); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	r := &round{Player: p, seed: seed, uids: map[string]types.UID{}}
	r.signs = slices.ContainsFunc(ops, func(op Op) bool { return op.Namespace == metav1.NamespacePublic })
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	exited := p.process.Exited
	go func() { // which ends with the manager
		<-exited
		cancel()
	}()
	err := r.play(alive, ops, about)
	if ctx.Err() != nil || err != nil && alive.Err() == nil {
		return nil, errors.Join(ctx.Err(), err, p.Close())
	}
	if r.lookForPanics(); about != "" || len(r.Findings) > 0 {
		return &r.Result, p.Close()
	}
	p.metrics = append(p.metrics, r.Metrics)
	return &r.Result, nil
}

// round is a draw while it is played.
type round struct {
	*Player
	seed  uint64
	signs bool                 // it has a cluster-info
	uids  map[string]types.UID // by promise
	mu    sync.Mutex           // for findings
	Result
}

func (r *round) found(about, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Findings = append(r.Findings, Finding{about, fmt.Sprintf(format, args...)})
}

func (r *round) play(ctx context.Context, ops []Op, about string) (err error) {
	if err := r.setUp(ctx); err != nil {
		return err
	}
	r.disturbing.Store(true)
	r.sendAll(ctx, ops)
	r.disturbing.Store(false)
	_ = proxy.Pause(ctx, time.Now().Add(settling))
	if about == "panic" {
		return nil
	}
	if err := r.beQuiet(ctx); err != nil || about != "" && about != "namespaces" {
		return err
	}
	if err := r.cleanUp(ctx); err != nil {
		return err
	}
	r.Metrics, err = r.measure(ctx)
	return err
}

//go:embed setup.txtar
var setUp string

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
	config := p.cluster.RESTConfig(cluster.Admin)
	config.WarningHandler = rest.NoWarnings{}
	return dynamic.NewForConfigOrDie(config).Resource(k.resource()).Namespace(namespace)
}

// sendAll sends operations, and tries one loop after the other meanwhile.
func (r *round) sendAll(ctx context.Context, ops []Op) {
	meanwhile, stop := context.WithCancel(ctx)
	var tries sync.WaitGroup
	tries.Go(func() {
		for i := 0; meanwhile.Err() == nil; i = (i + 1) % len(canary.All) {
			if canary.All[i].Period.Duration == 0 {
				r.try(meanwhile, i)
			}
		}
	})
	for _, op := range ops {
		if r.send(ctx, op) == nil {
			r.Taken++
		}
		_ = proxy.Pause(ctx, time.Now().Add(op.Pause))
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
	case "status", "approval":
		_, err = api.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, op.Verb)
	default:
		_, err = api.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	}
	return err
}

// canaries is how the names of the canaries' namespaces begin.
const canaries = "canary-"

// try tries a loop with a canary. An end of ctx is no finding. There is one cluster-info: if the draw has it, no canary
// can tell whether it is signed.
func (r *round) try(ctx context.Context, i int) {
	c := canary.All[i]
	if r.signs && c.Loop == "bootstrap-signer-controller" {
		return
	}
	if err := c.Try(ctx, r.cluster, fmt.Sprint(canaries, i), late); err != nil && ctx.Err() == nil {
		r.found("canary: "+c.Does, "%v", err)
	}
}

// beQuiet changes nothing for a while, looks what the manager does meanwhile, and tries all loops.
func (r *round) beQuiet(ctx context.Context) error {
	var tries sync.WaitGroup
	for i := range canary.All {
		tries.Go(func() { r.try(ctx, i) })
	}
	err := r.watchQuiet(ctx)
	tries.Wait()
	return errors.Join(ctx.Err(), err)
}

// cleanUp deletes all that was drawn, policies early, for they might forbid the rest. The manager has to empty the
// namespaces. It is a finding if they do not go though all finalizers are taken away that none of its loops takes away.
func (r *round) cleanUp(ctx context.Context) error {
	for until := time.Now().Add(going); ; _ = proxy.Pause(ctx, time.Now().Add(every)) {
		var left []unstructured.Unstructured
		for _, k := range slices.Backward(vocabulary.Kinds) {
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
				left = append(left, o)
			}
		}
		if len(left) > 0 && time.Now().Before(until) {
			continue
		}
		var stay []string
		for _, o := range left {
			if o.GetKind() == "Namespace" {
				stay = append(stay, fmt.Sprintf("%s: %v", o.GetName(), o.Object["status"]))
			}
		}
		if len(stay) > 0 {
			r.found("namespaces", "still there after %v: %s", going, strings.Join(stay, "\n"))
		}
		return nil
	}
}

// drew tells whether an object belongs to the draw.
func (r *round) drew(k *Kind, o unstructured.Unstructured) bool {
	elsewhere := k.Kind == "CustomResourceDefinition" || o.GetName() == clusterInfo ||
		k.Kind == "Secret" && o.GetNamespace() == metav1.NamespaceSystem
	isOwn := strings.HasPrefix(o.GetNamespace(), own(r.seed, "")) || strings.HasPrefix(o.GetName(), own(r.seed, ""))
	return isOwn || elsewhere && slices.Contains(k.Names, o.GetName())
}

// end deletes an object, unless it goes with its namespace, and takes away its finalizers but those that a loop takes
// away.
func (r *round) end(ctx context.Context, k *Kind, o unstructured.Unstructured) error {
	api := r.api(k, o.GetNamespace())
	if o.GetDeletionTimestamp() == nil && !strings.HasPrefix(o.GetNamespace(), own(r.seed, "")) {
		return api.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
	}
	kept := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return !goes(k, o, f) })
	if len(kept) == len(o.GetFinalizers()) {
		return nil
	}
	o.SetFinalizers(kept)
	_, err := api.Update(ctx, &o, metav1.UpdateOptions{})
	return err
}

// goes tells whether a finalizer goes by itself: that of definitions the API server takes away, and loops that of Jobs
// from pods that nothing else controls, and those for dependents from all but events, which the garbage collector does
// not look at, and nodes, whose dependents may wait for pods that the lab does not end when a node goes.
func goes(k *Kind, o unstructured.Unstructured, finalizer string) bool {
	switch finalizer {
	case metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
		return k.Kind != "Event" && k.Kind != "Node"
	case batchv1.JobTrackingFinalizer:
		owner := metav1.GetControllerOf(&o)
		return k.Kind == "Pod" && (owner == nil || owner.Kind == "Job")
	}
	return strings.HasPrefix(finalizer, "customresourcecleanup.")
}
