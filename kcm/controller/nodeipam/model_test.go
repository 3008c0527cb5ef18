package nodeipam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"pgregory.net/rapid"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/latecache"
)

// model is a cluster with nodes and the loop that gives them ranges: the real one, from the
// handlers of its informer over its queue to its client. What surrounds it moves when it is
// told to: time, what the cache shows and the handlers hear, how the API server answers, which
// process leads, what becomes of nodes. The judge knows what the API server has and was asked.
type model struct {
	store    *latecache.Store[*corev1.Node]
	informer *latecache.Informer[*corev1.Node]
	ranges   Ranges
	loop     *Controller
	stop     func()

	mu       sync.Mutex // held by the model, but while the loop works
	how      outcome
	refusal  error
	underWay []func() // requests that are carried out later
	// leavesRequests says that a process may end while requests of it are under way.
	leavesRequests bool

	events  int                  // that have happened in the store
	born    map[types.UID]int    // when a node came
	since   map[types.UID]int    // since when it has ranges
	mine    map[types.UID]bool   // whose ranges the loop has written
	heard   int                  // since when the loop hears of nodes in the order in which they have come
	asked   map[types.UID]string // what the present process has asked for
	granted map[types.UID]bool   // and was told that it is done
	trace   []string
	wrong   string
}

type outcome string

const (
	well     outcome = "done"
	refused  outcome = "refused"
	lost     outcome = "done, but the answer is lost"
	dropped  outcome = "lost, and not done"
	underWay outcome = "lost, and done later"
	leftOut  outcome = "left out by a webhook"
)

var refusals = []error{
	apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New("not now")),
	invalid("", "spec", "unschedulable"),
	apierrors.NewConflict(corev1.Resource("nodes"), "", errors.New("not now")),
	apierrors.NewTooManyRequests("not now", 0),
	apierrors.NewInternalError(errors.New("failed calling webhook")),
}

func newModel(ranges Ranges) *model {
	m := &model{
		store: latecache.NewStore[*corev1.Node](corev1.Resource("nodes")), ranges: ranges, how: well,
		born: map[types.UID]int{}, since: map[types.UID]int{}, mine: map[types.UID]bool{},
	}
	m.mu.Lock()
	m.start()
	return m
}

// start starts the loop with the newest state, and with a memory in which there is nothing.
func (m *model) start() {
	m.informer, m.heard = latecache.NewInformer(m.store), m.events
	m.asked, m.granted = map[types.UID]string{}, map[types.UID]bool{}
	client := &fake.Clientset{}
	client.AddReactor("*", "*", m.answer)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim()))
	factory.InformerFor(&corev1.Node{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return m.informer })
	ctx, cancel := context.WithCancel(context.Background())
	m.loop = New(ctx, factory.Core().V1().Nodes(), client, m.ranges)
	m.note("the loop starts")
	ended := make(chan struct{})
	go func() { m.loop.Run(ctx, 3); close(ended) }()
	m.stop = func() { m.mu.Unlock(); cancel(); <-ended; m.mu.Lock() }
	m.pass(time.Second)
}

// pass lets time pass, and the loop work.
func (m *model) pass(d time.Duration) {
	m.mu.Unlock()
	defer m.mu.Lock()
	time.Sleep(d)
	synctest.Wait()
}

// answer is the API server.
func (m *model) answer(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetResource().Resource == "events" {
		return true, &corev1.Event{}, nil
	}
	var patch struct {
		Metadata struct{ UID types.UID }
		Spec     corev1.NodeSpec
	}
	request := action.(clienttesting.PatchActionImpl)
	if err := json.Unmarshal(request.Patch, &patch); err != nil {
		return true, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	uid, wants := patch.Metadata.UID, strings.Join(patch.Spec.PodCIDRs, " ")
	switch before, again := m.asked[uid]; {
	case again && before != wants:
		m.broke("it has asked for %s for %s, and asks for %s", before, uid, wants)
	case m.granted[uid]:
		m.broke("it asks again for %s for %s, which was granted", wants, uid)
	}
	m.asked[uid] = wants
	m.note("  %s is to have %s: %s", request.Name, wants, m.how)
	do := func() (runtime.Object, error) { return m.assign(request.Name, uid, patch.Spec.PodCIDRs) }
	switch m.how {
	case refused:
		return true, nil, m.refusal
	case dropped:
		return true, nil, errors.New("EOF")
	case underWay:
		m.underWay = append(m.underWay, func() { _, _ = do() })
		return true, nil, errors.New("EOF")
	}
	done, err := do()
	if m.how == lost {
		return true, nil, errors.New("EOF")
	}
	m.granted[uid] = err == nil && m.how != leftOut
	return true, done, err
}

// assign does what a request asks for, as far as the API server lets it.
func (m *model) assign(name string, uid types.UID, ranges []string) (runtime.Object, error) {
	there, err := m.store.Get(name)
	switch {
	case err != nil:
		return nil, err
	case there.UID != uid:
		return nil, invalid(name, "metadata", "uid")
	case slices.Equal(there.Spec.PodCIDRs, ranges):
		return there, nil
	case len(there.Spec.PodCIDRs) > 0:
		return nil, invalid(name, "spec", "podCIDRs")
	case m.how == leftOut:
		return there, nil
	}
	m.judge(uid, ranges)
	there.Spec.PodCIDRs = ranges
	m.mine[uid] = true
	return m.give(there), nil
}

// judge wants what the loop writes to overlap with nothing that it has written to a node that
// lives, nor with what a node had before this one came, nor with Services.
func (m *model) judge(uid types.UID, ranges []string) {
	for _, other := range m.store.List() {
		known := m.mine[other.UID] || m.since[other.UID] < m.born[uid] && m.born[uid] > m.heard
		if known && overlap(prefixes(ranges), prefixes(other.Spec.PodCIDRs)) {
			m.broke("%s gets %v, and %s has %v", uid, ranges, other.Name, other.Spec.PodCIDRs)
		}
	}
	if overlap(prefixes(ranges), m.ranges.Services) {
		m.broke("%s gets %v, which Services have", uid, ranges)
	}
}

func prefixes(texts []string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func overlap(some, others []netip.Prefix) bool {
	return slices.ContainsFunc(some, func(a netip.Prefix) bool { return slices.ContainsFunc(others, a.Overlaps) })
}

// give stores a node that has ranges now.
func (m *model) give(n *corev1.Node) *corev1.Node {
	m.events++
	m.since[n.UID] = m.events
	return stored(m.store.Update(n))
}

// stored stops the test when the API server refuses what the model itself wants.
func stored[T any](obj T, err error) T {
	if err != nil {
		panic(err)
	}
	return obj
}

func (m *model) come(name string, ranges ...string) {
	m.pass(time.Second)
	m.events++
	n := node(name, ranges...)
	n.CreationTimestamp = metav1.Now()
	n = stored(m.store.Create(n))
	m.born[n.UID], m.since[n.UID] = m.events, m.events
	m.note("%s comes with %v", name, ranges)
}

// anything is what may happen, at any time.
func anything(m *model) map[string]func(*rapid.T) {
	few := rapid.IntRange(1, 4)
	anyOf := func(t *rapid.T) *corev1.Node {
		n, err := m.store.Get(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "node"))
		if err != nil {
			t.Skip("there is none")
		}
		return n
	}
	brought := []string{"192.168.7.0/24", "10.9.0.0/27", "10.9.0.0/28", "10.9.0.16/28", "10.9.0.40/29", "0.0.0.0/0"}
	return map[string]func(*rapid.T){
		"a node comes": func(t *rapid.T) {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "name")
			if _, err := m.store.Get(name); err == nil {
				t.Skip("it is there")
			}
			if rapid.IntRange(0, 3).Draw(t, "brings a range") == 0 {
				m.come(name, rapid.SampledFrom(brought).Draw(t, "range"))
				return
			}
			m.come(name)
		},
		"a node goes": func(t *rapid.T) {
			n := anyOf(t)
			m.events++
			if n.DeletionTimestamp == nil && rapid.Bool().Draw(t, "is held") {
				n.DeletionTimestamp = new(metav1.Now())
				stored(m.store.Update(n))
				m.note("%s is to go", n.Name)
				return
			}
			stored(n, m.store.Delete(n.Name))
			m.note("%s goes", n.Name)
		},
		"a node changes": func(t *rapid.T) {
			n := anyOf(t)
			n.Annotations = map[string]string{"at": fmt.Sprint(len(m.trace))}
			stored(m.store.Update(n))
		},
		"somebody else gives it a range": func(t *rapid.T) {
			if n := anyOf(t); len(n.Spec.PodCIDRs) == 0 {
				n.Spec.PodCIDRs = []string{rapid.SampledFrom(brought).Draw(t, "range")}
				m.give(n)
				m.note("somebody gives %v to %s", n.Spec.PodCIDRs, n.Name)
			}
		},
		"news": func(t *rapid.T) {
			m.note("changes reach the cache")
			m.informer.Show(few.Draw(t, "changes"))
			m.informer.Tell(few.Draw(t, "told"))
		},
		"the watch breaks": func(t *rapid.T) {
			m.informer.Relist()
			m.heard = m.events
			m.note("the cache lists anew")
		},
		"time passes": func(t *rapid.T) {
			m.pass(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "time"))
		},
		"answers": func(t *rapid.T) {
			m.how = rapid.SampledFrom([]outcome{well, well, refused, leftOut, lost, dropped, underWay, underWay, underWay}).Draw(t, "how")
			m.refusal = rapid.SampledFrom(refusals).Draw(t, "refusal")
		},
		"an old request is carried out": func(t *rapid.T) {
			if len(m.underWay) > 0 {
				m.carryOut(rapid.IntRange(0, len(m.underWay)-1).Draw(t, "which"))
			}
		},
		"another process leads": func(t *rapid.T) {
			if len(m.underWay) > 0 && !m.leavesRequests {
				t.Skip("a request is under way")
			}
			m.stop()
			m.start()
		},
		"": func(t *rapid.T) {
			m.pass(0)
			m.check(t)
		},
	}
}

func (m *model) carryOut(i int) {
	m.underWay[i]()
	m.underWay = slices.Delete(m.underWay, i, i+1)
	m.note("an old request is carried out")
}

// comeToRest lets all be well, and wants each node to have ranges, or none to be left, and
// nothing to be held that no node has.
func (m *model) comeToRest(t *rapid.T) {
	m.how = well
	for len(m.underWay) > 0 {
		m.carryOut(0)
	}
	for _, n := range m.store.List() {
		if n.DeletionTimestamp != nil { // it may keep what was set aside for it until it is gone
			stored(n, m.store.Delete(n.Name))
		}
	}
	for range 5 { // what it writes is news
		m.informer.CatchUp()
		m.pass(time.Hour)
	}
	m.check(t)
	held := slices.Clone(m.ranges.Services)
	var without []string
	for _, n := range m.store.List() {
		held = append(held, prefixes(n.Spec.PodCIDRs)...)
		if len(n.Spec.PodCIDRs) == 0 {
			without = append(without, n.Name)
		}
	}
	full := false
	for _, p := range m.loop.ledger.pools {
		used := 0
		for i := range p.holders {
			if overlap([]netip.Prefix{p.at(i)}, held) {
				used++
			}
		}
		full = full || used == len(p.holders)
		if used != p.used {
			m.fail(t, fmt.Sprintf("of %s nodes have %d pieces, and the loop holds %d", p.cluster, used, p.used))
		}
	}
	if len(without) > 0 && !full {
		m.fail(t, fmt.Sprintf("nodes have no range, and some is left: %v", without))
	}
}

func (m *model) broke(format string, args ...any) {
	if m.wrong == "" {
		m.wrong = fmt.Sprintf(format, args...)
	}
}

// note adds a line to the trace: what has happened, and which ranges nodes have now.
func (m *model) note(format string, args ...any) {
	var now []string
	for _, n := range m.store.List() {
		now = append(now, strings.Join(append([]string{string(n.UID)}, n.Spec.PodCIDRs...), " "))
	}
	m.trace = append(m.trace, fmt.Sprintf("%3d %s\n      now: %s", len(m.trace), fmt.Sprintf(format, args...), strings.Join(now, ", ")))
}

func (m *model) check(t *rapid.T) {
	if m.wrong != "" {
		m.fail(t, m.wrong)
	}
}

func (m *model) fail(t *rapid.T, promise string) {
	t.Logf("%v\n%s\n%s", m.ranges, strings.Join(m.trace, "\n"), promise)
	panic(broken("a promise is broken"))
}

// broken is what a model panics with that fails.
type broken string

// Whatever is late, lost or refused, and whichever process leads: nobody gets what another one
// was given, the same is asked for each time, and nothing after it was granted. When the
// disturbance has ended each node has ranges, as far as there are some, and none is lost.
func TestTheLoopOnLateCaches(t *testing.T) {
	t.Parallel()
	withServices := cutInto("10.9.0.0/26 28")
	withServices.Services = []netip.Prefix{netip.MustParsePrefix("10.9.0.32/28")}
	play(t, func(t *rapid.T) {
		clusters := []Ranges{four, cutInto("10.9.0.0/26 28", "fd00::/63 64"), withServices}
		m := newModel(clusters[rapid.IntRange(0, 2).Draw(t, "cluster")])
		defer func() { m.stop() }()
		t.Repeat(anything(m))
		m.comeToRest(t)
	})
}

// play checks a property, each time in a bubble of its own.
func play(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	rapid.Check(t, func(r *rapid.T) {
		var failure any
		synctest.Test(t, func(*testing.T) {
			defer func() { failure = recover() }()
			property(r)
		})
		if broken, ok := failure.(broken); ok {
			r.Fatal(string(broken)) // rapid tells failures apart by their places
		}
		if failure != nil {
			panic(failure)
		}
	})
}

// A request may be carried out long after its sender has died. Where no node goes, what the
// next process deals is the same, so nobody shares.
func TestAnOldRequestGivesNoNodeWhatAnotherHas(t *testing.T) {
	t.Parallel()
	play(t, func(t *rapid.T) {
		m := newModel(cutInto(rapid.SampledFrom([]string{"10.9.0.0/26 28", "10.9.0.0/25 28"}).Draw(t, "cluster")))
		defer func() { m.stop() }()
		m.leavesRequests = true
		all, come := anything(m), 0
		t.Repeat(map[string]func(*rapid.T){
			"a node comes": func(t *rapid.T) {
				if come++; come <= 6 {
					m.come(rapid.StringMatching(`[a-z]{3}`).Draw(t, "name") + fmt.Sprint(come))
				}
			},
			"news":                          all["news"],
			"time passes":                   all["time passes"],
			"answers":                       all["answers"],
			"an old request is carried out": all["an old request is carried out"],
			"another process leads":         all["another process leads"],
			"":                              all[""],
		})
		m.comeToRest(t)
	})
}

// The cache is ahead of what the handlers were told.
func TestANodeOfWhichTheHandlersWereNotToldIsNotSaidToGoWithout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(four)
		defer func() { m.stop() }()
		m.come("a")
		m.informer.Show(1)
		told := record.NewFakeRecorder(1)
		m.loop.events = told
		require.NoError(t, m.loop.sync(t.Context(), cache.NewObjectName("", "a")))
		require.Empty(t, told.Events)
		m.informer.Tell(1)
		m.pass(time.Second)
		require.Equal(t, []string{"10.9.0.0/28"}, stored(m.store.Get("a")).Spec.PodCIDRs)
	})
}
