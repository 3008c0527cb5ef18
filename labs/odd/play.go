package odd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/labs/await"
	"github.com/kcm-book/kcm-book/labs/canary"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/process"
	"github.com/kcm-book/kcm-book/labs/proxy"
)

const (
	// settling is how long nothing is changed before it counts what the loops do, and quiet for how long it counts then.
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
	panics  int // that were told already

	proxy      *httptest.Server
	faulty     bool
	disturbing atomic.Bool  // while operations are sent
	faults     atomic.Int64 // since they began to be sent
}

// Start starts a cluster and a manager: the program, or the original. If it is to be faulty, the API server refuses some
// of the manager's writes, and some answers are lost, while operations are sent.
func Start(ctx context.Context, program string, reference, faulty bool) (*Player, error) {
	c, err := cluster.StartEmbedded(ctx)
	if err != nil {
		return nil, err
	}
	p := newPlayer(c)
	p.faulty = faulty
	if err := p.start(ctx, program, reference); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// start starts the proxy, and the manager behind it.
func (p *Player) start(ctx context.Context, program string, reference bool) error {
	m, err := play.NewManager(ctx, p.cluster, reference, program)
	if err != nil {
		return err
	}
	user := cluster.KCM
	if reference {
		user = cluster.Reference
	}
	kubeconfig := filepath.Join(p.cluster.Dir(), "disturbed.kubeconfig")
	if p.proxy, err = proxy.Start(p.cluster.RESTConfig(user), kubeconfig, p.disturb); err != nil {
		return err
	}
	if p.port, err = process.FreePort(); err != nil {
		return err
	}
	p.process, err = m.Start(m.Loops, "--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port="+p.port)
	return err
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
	// Sent are the operations that were sent before the manager ended, if it did. Taken and Refused tell how many of them
	// the API server has taken and refused, by kind.
	Sent           []Op
	Taken, Refused map[string]int
	// Faults is how many writes of the manager were refused or got no answer.
	Faults   int
	Findings []Finding
	Figures
	Took time.Duration
}

// Finding is something that is not as it should be.
type Finding struct{ About, Says string }

// Play sends operations of a draw, and looks whether the manager bears them. If about is not empty, it looks for
// nothing else. An error is one of the lab, and says nothing about the manager.
func (p *Player) Play(ctx context.Context, seed uint64, ops []Op, about string) (*Result, error) {
	r := &round{Player: p, seed: seed, about: about, uids: map[string]types.UID{}}
	r.Taken, r.Refused = map[string]int{}, map[string]int{}
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.process.Exited:
			cancel()
		case <-alive.Done():
		}
	}()
	began := time.Now()
	err := r.play(alive, ops)
	r.Took = time.Since(began)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && alive.Err() == nil {
		return nil, err
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
	Result
}

func (r *round) wants(about string) bool { return r.about == "" || r.about == about }

func (r *round) found(about, format string, args ...any) {
	if r.wants(about) {
		r.Findings = append(r.Findings, Finding{about, fmt.Sprintf(format, args...)})
	}
}

func (r *round) play(ctx context.Context, ops []Op) error {
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
	return r.measure(ctx)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// setUp creates the namespaces, in each a quota, without which 2³¹−1 replicas would keep the loops busy for years.
func (r *round) setUp(ctx context.Context) error {
	most := resource.MustParse("40")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "bound"}}
	quota.Spec.Hard = corev1.ResourceList{
		"pods": most, "count/jobs.batch": most, "count/replicasets.apps": most, "count/controllerrevisions.apps": most,
	}
	for _, name := range Namespaces(r.seed) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		namespace.Labels = map[string]string{"odd.kcm-book.io/drawn": ""}
		_, err := r.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
		if err == nil {
			_, err = r.kube.CoreV1().ResourceQuotas(name).Create(ctx, quota, metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
	}
	return await.Until(ctx, every/10, time.Minute, "pods can be created", func(ctx context.Context) error {
		for _, name := range Namespaces(r.seed) {
			if _, err := r.kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{}); err != nil {
				return err
			}
			quota, err := r.kube.CoreV1().ResourceQuotas(name).Get(ctx, "bound", metav1.GetOptions{})
			if err != nil || len(quota.Status.Used) < len(quota.Spec.Hard) {
				return fmt.Errorf("the quota has no sum yet: %w", err)
			}
		}
		return nil
	})
}

func (p *Player) api(k *Kind, namespace string) dynamic.ResourceInterface {
	if k.Cluster {
		return p.client.Resource(k.resource())
	}
	return p.client.Resource(k.resource()).Namespace(namespace)
}

// sendAll sends operations, and tries one loop after the other meanwhile.
func (r *round) sendAll(ctx context.Context, ops []Op) {
	meanwhile, stop := context.WithCancel(ctx)
	tried := make(chan []Finding)
	go func() {
		var findings []Finding
		for i := 0; r.about == "" && meanwhile.Err() == nil; i++ {
			if c := canary.All[i%len(canary.All)]; c.Period.Duration == 0 {
				findings = append(findings, r.try(meanwhile, i%len(canary.All))...)
			}
		}
		tried <- findings
	}()
	for i, op := range ops {
		r.Sent = ops[:i+1]
		err := r.send(ctx, op)
		if ctx.Err() != nil {
			break
		}
		if err == nil {
			r.Taken[op.Kind.String()]++
		} else {
			r.Refused[op.Kind.String()]++
		}
		sleep(ctx, op.Pause)
	}
	stop()
	r.Findings = append(r.Findings, <-tried...)
}

// send sends an operation. The answer says whether the API server takes it.
func (r *round) send(ctx context.Context, op Op) error {
	api, name := r.api(op.Kind, op.Namespace), op.Name
	if name == "" {
		list, err := api.List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return fmt.Errorf("there is none: %w", err)
		}
		slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
			return strings.Compare(a.GetName(), b.GetName())
		})
		name = list.Items[op.Which%len(list.Items)].GetName()
	}
	body := &unstructured.Unstructured{Object: r.keepPromises(runtime.DeepCopyJSON(op.Body))}
	switch op.Verb {
	case "create":
		created, err := api.Create(ctx, body, metav1.CreateOptions{})
		if err == nil {
			r.uids[promise(op)] = created.GetUID()
		}
		if err == nil && op.Kind.Kind == "ValidatingAdmissionPolicy" {
			err = r.bind(ctx, name)
		}
		return err
	case "delete":
		return api.Delete(ctx, name, op.How)
	}
	data, err := json.Marshal(body.Object)
	if err != nil {
		return err
	}
	subresources := map[string][]string{"status": {"status"}}
	_, err = api.Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{}, subresources[op.Verb]...)
	return err
}

// bind puts a policy into force.
func (r *round) bind(ctx context.Context, policy string) error {
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy}}
	binding.Spec.PolicyName = policy
	binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
	bindings := r.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err := bindings.Create(ctx, binding, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// keepPromises puts the UIDs in that objects have got.
func (r *round) keepPromises(body map[string]any) map[string]any {
	owners, _, _ := unstructured.NestedFieldNoCopy(body, "metadata", "ownerReferences")
	all, _ := owners.([]any)
	for _, owner := range all {
		owner := owner.(map[string]any)
		if uid, _ := owner["uid"].(string); r.uids[uid] != "" {
			owner["uid"] = string(r.uids[uid])
		} else if strings.HasPrefix(uid, "uid:") {
			owner["uid"] = "00000000-0000-4000-8000-000000000000" // nobody's
		}
	}
	return body
}

// canaries is how the names of the canaries' namespaces begin.
const canaries = "canary-"

// try tries a loop with a canary. An end of ctx is no finding.
func (r *round) try(ctx context.Context, i int) []Finding {
	c := canary.All[i]
	about := "canary: " + c.Does
	if !r.wants(about) {
		return nil
	}
	if err := c.Try(ctx, r.cluster, fmt.Sprint(canaries, i), late); err != nil && ctx.Err() == nil {
		return []Finding{{about, err.Error()}}
	}
	return nil
}

// beQuiet changes nothing for a while, looks what the manager does meanwhile, and tries all loops.
func (r *round) beQuiet(ctx context.Context) error {
	tried := make(chan []Finding)
	for i := range canary.All {
		go func() { tried <- r.try(ctx, i) }()
	}
	var err error
	if r.wants("hot") || r.wants("unmade") {
		err = r.watchQuiet(ctx)
	}
	for range canary.All {
		r.Findings = append(r.Findings, <-tried...)
	}
	return errors.Join(ctx.Err(), err)
}

// cleanUp deletes all that was drawn, policies early, for they might forbid the rest. The manager has to empty the
// namespaces. It is a finding if they do not go though all finalizers are taken away that none of its loops takes away.
func (r *round) cleanUp(ctx context.Context) error {
	kinds := slices.Clone(Kinds)
	slices.Reverse(kinds)
	for until := time.Now().Add(going); ; sleep(ctx, every) {
		left, namespaces := 0, []string(nil)
		for _, k := range kinds {
			list, err := r.client.Resource(k.resource()).List(ctx, metav1.ListOptions{})
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
					said, _ := json.Marshal(o.Object["status"])
					namespaces = append(namespaces, fmt.Sprintf("%s: %s", o.GetName(), said))
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
// collector does not look at, and nodes, whose dependents may wait for pods that the lab does not end on a node that goes.
func (r *round) end(ctx context.Context, k *Kind, o unstructured.Unstructured) error {
	api := r.api(k, o.GetNamespace())
	if o.GetDeletionTimestamp() == nil && !strings.HasPrefix(o.GetNamespace(), own(r.seed, "")) {
		if k.Kind == "ValidatingAdmissionPolicy" {
			// It may be gone already.
			r.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, o.GetName(), metav1.DeleteOptions{})
		}
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
	if k.Kind == "Namespace" && len(ofNamespace) > 1 {
		o.Object["spec"] = map[string]any{"finalizers": []any{string(corev1.FinalizerKubernetes)}}
		_, err := api.Update(ctx, &o, metav1.UpdateOptions{}, "finalize")
		return err
	}
	return nil
}
