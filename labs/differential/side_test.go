package differential

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

var (
	duration = flag.Duration("for", 5*time.Second, "how long to compare random runs")
	seed     = flag.Uint64("seed", uint64(time.Now().UnixNano()), "the number of the first random run")
	replay   = flag.String("steps", "", "the steps of one run, as a failure prints them: nothing else is done")
)

func TestMain(m *testing.M) {
	flag.Parse()
	utilruntime.ErrorHandlers = nil // syncs fail all the time here, and one of the handlers sleeps
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
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
	so := &sum{began: time.Now(), intended: map[string]int{}}
	fmt.Printf("comparing for %v, from seed %d on\n", *duration, *seed)
	t.Cleanup(func() { fmt.Print(so.text()) })
	const workers = 2
	for i := range uint64(workers) {
		t.Run(strconv.FormatUint(i, 10), func(t *testing.T) {
			t.Parallel()
			for n := *seed + i; time.Since(so.began) < *duration && !t.Failed(); n += workers {
				steps := randomRun(n)
				result := play(t, original, steps, false)
				so.add(result)
				if len(result.differences) > 0 {
					t.Errorf("kcm and the original differ:\n%s", report(t, original, n, reduce(t, original, steps)))
				}
			}
		})
	}
}

// sum is what came of all runs.
type sum struct {
	began time.Time

	mu           sync.Mutex
	runs, states int
	intended     map[string]int
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
	if time.Since(s.told) > 10*time.Second {
		s.told = time.Now()
		fmt.Printf("%v: %d settled states of %d runs\n", time.Since(s.began).Round(time.Second), s.states, s.runs)
	}
}

func (s *sum) text() string {
	text := fmt.Sprintf("%d settled states of %d runs in %v\n", s.states, s.runs, time.Since(s.began).Round(time.Second))
	for _, name := range slices.Sorted(maps.Keys(s.intended)) {
		text += fmt.Sprintf("%6d × %s\n", s.intended[name], name)
	}
	return text
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

// What was mended in kcm because a run had shown it.
func TestWhatOnceDifferedDoesNoMore(t *testing.T) {
	for name, text := range map[string]string{
		"pods become available in time while others cannot be created": "quota 4; create 6 3 4; settle; min-ready 1; settle; start-all 2; settle",
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

// A program that does something else is found, whatever that is.
func TestAWrongWriteIsFound(t *testing.T) {
	for name, wrong := range map[string]func(client *fake.Clientset){
		"a ReplicaSet is created too small": change("create", "replicasets", func(rs *appsv1.ReplicaSet) { *rs.Spec.Replicas /= 2 }),
		"a ReplicaSet is scaled too far":    change("update", "replicasets", func(rs *appsv1.ReplicaSet) { *rs.Spec.Replicas++ }),
		"a status counts wrong":             change("update", "deployments", func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 0 }),
		"old ReplicaSets are never deleted": func(client *fake.Clientset) {
			client.PrependReactor("delete", "replicasets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			for n := range uint64(100) {
				if steps := randomRun(n); len(play(t, broken(wrong), steps, false).differences) > 0 {
					steps = reduce(t, broken(wrong), steps)
					assert.Less(t, len(steps), 15, "the shortest run is not short: %v", steps)
					return
				}
			}
			t.Fatal("it was not found in 100 runs")
		})
	}
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
