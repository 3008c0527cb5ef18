package differential

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

var (
	seed   = flag.Uint64("seed", 1, "the number of the first random run")
	runs   = flag.Uint64("runs", 100, "how many random runs to compare")
	replay = flag.String("steps", "", "the steps of one run, as a failure prints them: nothing else is done")
)

func TestMain(m *testing.M) {
	flag.Usage = usage
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "%q is no flag\n", flag.Arg(0))
		usage()
		os.Exit(2)
	}
	utilruntime.ErrorHandlers = nil // syncs fail all the time here, and one of the handlers sleeps
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// usage tells of the flags that are not those of every test.
func usage() {
	for _, name := range []string{"seed", "runs", "steps"} {
		fmt.Fprintf(os.Stderr, "  -%-6s %s\n", name, flag.Lookup(name).Usage)
	}
}

// length is how many steps a random run has.
const length = 60

func randomRun(n uint64) []step {
	random := rand.New(rand.NewPCG(n, 0))
	var steps []step
	for range length {
		steps = append(steps, draw(random))
	}
	return steps
}

func TestKcmAndTheOriginalDoTheSame(t *testing.T) {
	if *replay != "" {
		steps, err := parse(*replay)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Print(report(t, original, 0, steps))
		return
	}
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	t.Cleanup(stop)
	so := &sum{began: time.Now(), intended: map[string]int{}, steps: map[string]int{}}
	fmt.Printf("comparing %d runs, from seed %d on; Ctrl-C sums up\n", *runs, *seed)
	t.Cleanup(func() { fmt.Print(so.text()) })
	const workers = 2
	for i := range uint64(workers) {
		t.Run(strconv.FormatUint(i, 10), func(t *testing.T) {
			t.Parallel()
			for n := i; n < *runs && interrupted.Err() == nil && !t.Failed(); n += workers {
				steps := randomRun(*seed + n)
				result := play(t, original, steps, false)
				so.add(result)
				if differ(result) {
					t.Errorf("kcm and the original differ:\n%s", report(t, original, *seed+n, reduce(steps, differs(t, original))))
				}
			}
		})
	}
}

// differs returns what tells whether a run with a program shows a difference.
func differs(t *testing.T, theirs loops) func(steps []step) bool {
	return func(steps []step) bool { return differ(play(t, theirs, steps, false)) }
}

// sum is what came of all runs.
type sum struct {
	began time.Time

	mu           sync.Mutex
	runs, states int
	intended     map[string]int
	steps        map[string]int
	writes       [2]int
	told         time.Time
}

func (s *sum) add(result outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	s.states += result.states
	for name, n := range result.explained {
		s.intended[name] += n
	}
	for verb, n := range result.steps {
		s.steps[verb] += n
	}
	s.writes[0] += result.writes[0]
	s.writes[1] += result.writes[1]
	if time.Since(s.told) > 10*time.Second {
		s.told = time.Now()
		fmt.Printf("%v: %d settled states of %d runs\n", time.Since(s.began).Round(time.Second), s.states, s.runs)
	}
}

func (s *sum) text() string {
	text := fmt.Sprintf("%d settled states of %d runs in %v\n", s.states, s.runs, time.Since(s.began).Round(time.Second))
	text += fmt.Sprintf("writes: %d of kcm, %d of the original\n", s.writes[0], s.writes[1])
	text += "steps:" + counted(s.steps) + "\n"
	return text + "states that differ on purpose:" + counted(s.intended) + "\n"
}

func counted(times map[string]int) (text string) {
	for _, name := range slices.Sorted(maps.Keys(times)) {
		text += fmt.Sprintf(" %s %d,", name, times[name])
	}
	return strings.TrimSuffix(text, ",")
}

func TestEachIntendedDifferenceIsShownByItsExample(t *testing.T) {
	for _, known := range intendedDifferences {
		t.Run(known.name, func(t *testing.T) {
			steps, err := parse(known.example)
			if err != nil {
				t.Fatal(err)
			}
			result := play(t, original, steps, false)
			assert.Empty(t, result.differences)
			assert.Contains(t, result.explained, known.name)
		})
	}
}

func TestEachIntendedDifferenceIsOnThePageAboutThem(t *testing.T) {
	page, err := os.ReadFile("../../chapters/where-kcm-differs.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range intendedDifferences {
		assert.Contains(t, string(page), "| "+known.entry, "%s: the page has no line that begins so", known.name)
	}
}

// What was mended in kcm because a run had shown it.
func TestWhatOnceDifferedDoesNoMore(t *testing.T) {
	for name, text := range map[string]string{
		"pods become available in time while others cannot be created": "quota 4; create 6 3 4; settle; min-ready 1; settle; start-all 2; settle",
		"a rollout ends by the present minReadySeconds":                "create 2 4 3; settle; settle; start-all 0; min-ready 6; settle",
		"an old pod goes by the present minReadySeconds":               "create 6 4 3; settle; image 1; settle; start 6 1; min-ready 10; settle",
	} {
		t.Run(name, func(t *testing.T) {
			steps, err := parse(text)
			assert.NoError(t, err)
			result := play(t, original, steps, false)
			assert.Empty(t, result.differences)
			assert.Equal(t, 3, result.states)
		})
	}
}

// How many creations of pods are under way when the first fails is up to chance, and with it how many there are in all.
func TestKcmEndsWhereKcmEnds(t *testing.T) {
	for n := range uint64(20) {
		result := play(t, kcm, randomRun(n), false)
		if slices.ContainsFunc(result.differences, difference.lasts) {
			t.Fatalf("two runs of one program differ, so nothing can be compared:\n%s", report(t, kcm, n, randomRun(n)))
		}
	}
}

// A program that does something else is found, whether it decides or writes it.
func TestAWrongLoopIsFound(t *testing.T) {
	for name, wrong := range map[string]loops{
		"an available pod too many is taken": mistaking(func(d *appsv1.Deployment) {
			if rolling := d.Spec.Strategy.RollingUpdate; rolling != nil {
				rolling.MaxUnavailable = new(intstr.FromInt32(rolling.MaxUnavailable.IntVal + 1))
			}
		}),
		"a pause is overlooked":             mistaking(func(d *appsv1.Deployment) { d.Spec.Paused = false }),
		"a version too many is kept":        mistaking(func(d *appsv1.Deployment) { *d.Spec.RevisionHistoryLimit++ }),
		"a rollout is given up late":        mistaking(func(d *appsv1.Deployment) { *d.Spec.ProgressDeadlineSeconds += 10 }),
		"pods count as available at once":   mistaking(func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 0 }),
		"a ReplicaSet is created too small": broken(change("create", "replicasets", func(rs *appsv1.ReplicaSet) { *rs.Spec.Replicas /= 2 })),
		"a ReplicaSet is scaled too far":    broken(change("update", "replicasets", func(rs *appsv1.ReplicaSet) { *rs.Spec.Replicas++ })),
		"a status counts wrong":             broken(change("update", "deployments", func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 0 })),
		"old ReplicaSets are never deleted": broken(func(client *fake.Clientset) {
			client.PrependReactor("delete", "replicasets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
		}),
	} {
		t.Run(name, func(t *testing.T) {
			for n := range uint64(300) {
				if steps := randomRun(n); differ(play(t, wrong, steps, false)) {
					steps = reduce(steps, differs(t, wrong))
					t.Logf("seed %d: %v", n, steps)
					assert.Less(t, len(steps), 15, "the shortest run is not short: %v", steps)
					return
				}
			}
			t.Fatal("it was not found in 300 runs")
		})
	}
}

// mistaking is a kcm that takes deployments for something else.
func mistaking(mistake func(d *appsv1.Deployment)) loops {
	return func(ctx context.Context, from informers.SharedInformerFactory, client kubernetes.Interface, events record.EventRecorder) (loop, loop, workQueue, workQueue) {
		factory := informers.NewSharedInformerFactory(client, 0)
		factory.InformerFor(&appsv1.Deployment{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return mistakenInformer{from.Apps().V1().Deployments().Informer(), mistake}
		})
		factory.InformerFor(&appsv1.ReplicaSet{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return from.Apps().V1().ReplicaSets().Informer()
		})
		factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return from.Core().V1().Pods().Informer()
		})
		return kcm(ctx, factory, client, events)
	}
}

type mistakenInformer struct {
	cache.SharedIndexInformer
	mistake func(d *appsv1.Deployment)
}

func (i mistakenInformer) GetIndexer() cache.Indexer {
	return mistakenIndexer{i.SharedIndexInformer.GetIndexer(), i.mistake}
}

type mistakenIndexer struct {
	cache.Indexer
	mistake func(d *appsv1.Deployment)
}

func (i mistakenIndexer) GetByKey(key string) (any, bool, error) {
	obj, exists, err := i.Indexer.GetByKey(key)
	if !exists {
		return obj, exists, err
	}
	d := obj.(*appsv1.Deployment).DeepCopy()
	i.mistake(d)
	return d, exists, err
}

// change changes what a manager writes.
func change[T runtime.Object](verb, resource string, to func(obj T)) func(client *fake.Clientset) {
	return func(client *fake.Clientset) {
		client.PrependReactor(verb, resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
			to(action.(interface{ GetObject() runtime.Object }).GetObject().(T))
			return false, nil, nil
		})
	}
}

// broken is a kcm whose writes are not what it wants.
func broken(wrong func(client *fake.Clientset)) loops {
	return func(ctx context.Context, from informers.SharedInformerFactory, client kubernetes.Interface, events record.EventRecorder) (loop, loop, workQueue, workQueue) {
		wrong(client.(*fake.Clientset))
		return kcm(ctx, from, client, events)
	}
}

func TestStepsAreReadAsTheyArePrinted(t *testing.T) {
	for _, s := range randomRun(1) {
		again, err := parse(s.String())
		assert.NoError(t, err)
		assert.Equal(t, []step{s}, again)
	}
	_, err := parse("create 1")
	assert.EqualError(t, err, `step "create" takes 3 numbers`)
}
