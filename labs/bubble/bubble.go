// Package bubble runs a control loop in a bubble of [synctest], where time costs nothing, and tells what the loop does
// by itself: which of its keys are woken, and how often it looks and asks while it waits.
package bubble

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clienttesting "k8s.io/client-go/testing"
)

func init() {
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

// Start makes a controller of the factory's informers, and returns what runs it until ctx ends. Its loops are to call
// note with each key that they are asked to look at: see [Note].
type Start func(
	ctx context.Context, factory informers.SharedInformerFactory, note func(key string),
) (run func(ctx context.Context))

// Note has a loop note each key that it is asked to look at, and sync it only if it is said to. What the key is called
// in the notes is right of the last slash: of a namespace and a name, the name.
func Note[K comparable](loopSync *func(context.Context, K) error, note func(key string), syncs bool) {
	sync := *loopSync
	*loopSync = func(ctx context.Context, key K) error {
		words := fmt.Sprint(key)
		note(words[strings.LastIndex(words, "/")+1:])
		if !syncs {
			return nil
		}
		return sync(ctx, key)
	}
}

// Last has a loop's syncs store what they return, each in place of the one before.
func Last[K comparable](loopSync *func(context.Context, K) error, last *error) {
	sync := *loopSync
	*loopSync = func(ctx context.Context, key K) error {
		*last = sync(ctx, key)
		return *last
	}
}

// Woken has a loop come to rest for a minute, then has change happen, and returns which keys were noted from then on
// until a minute after it: "db web".
func Woken(t *testing.T, client kubernetes.Interface, start Start, change func(ctx context.Context) error) string {
	t.Helper()
	var lock sync.Mutex
	var woken []string
	note := func(key string) {
		lock.Lock()
		defer lock.Unlock()
		if !slices.Contains(woken, key) {
			woken = append(woken, key)
		}
	}
	run(t, client, start, note, func(ctx context.Context) {
		pass(time.Minute)
		lock.Lock()
		woken = nil // of the beginning
		lock.Unlock()
		if err := change(ctx); err != nil {
			t.Error(err)
		}
		pass(time.Minute)
	})
	slices.Sort(woken)
	return strings.Join(woken, " ")
}

// Nothing is a change by which ten minutes pass.
func Nothing(context.Context) error {
	pass(10 * time.Minute)
	return nil
}

// Most is how often a loop may look and ask within a minute that waits for what never comes: once in five seconds, as
// it may look again for what it has made. Who looks more often polls.
const Most = 12

// Busy returns how often a loop has looked at its keys in the last of ten minutes, or how many requests it has sent
// then if these are more, given how many were sent until now.
func Busy(t *testing.T, client kubernetes.Interface, start Start, sent func() int) (n int) {
	t.Helper()
	var looks atomic.Int64
	run(t, client, start, func(string) { looks.Add(1) }, func(context.Context) {
		pass(9 * time.Minute)
		looked, asked := int(looks.Load()), sent()
		pass(time.Minute)
		n = max(int(looks.Load())-looked, sent()-asked)
	})
	return n
}

func run(t *testing.T, client kubernetes.Interface, start Start, note func(key string), body func(context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		factory := informers.NewSharedInformerFactory(client, 0)
		run := start(ctx, factory, note)
		factory.Start(ctx.Done())
		synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
		var running sync.WaitGroup
		running.Go(func() { run(ctx) })
		body(ctx)
		stop()
		running.Wait()
		factory.Shutdown()
	})
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// object is what can be edited, for example a *corev1.Pod.
type object[T any] interface {
	metav1.Object
	DeepCopy() T
}

// client is what reads and writes objects of one resource.
type client[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Update(ctx context.Context, obj T, options metav1.UpdateOptions) (T, error)
}

// Edit changes an object, which has another resource version then.
func Edit[T object[T]](ctx context.Context, api client[T], name string, edit func(T)) error {
	obj, err := api.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	obj = obj.DeepCopy()
	version, _ := strconv.Atoi(obj.GetResourceVersion()) // a fake API server may give none
	obj.SetResourceVersion(strconv.Itoa(version + 1))
	edit(obj)
	_, err = api.Update(ctx, obj, metav1.UpdateOptions{})
	return err
}

// Deaf has no informer hear of changes of a resource. What is there when it begins it is told.
func Deaf(s clienttesting.FakeClient, resource string) {
	s.PrependWatchReactor(resource, func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, watch.NewRaceFreeFake(), nil
	})
}

// Ahead has what is created and updated get ever newer versions, which a [Late] cache never reaches.
func Ahead(s clienttesting.FakeClient) {
	var writes atomic.Int64
	s.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if write, ok := action.(clienttesting.CreateAction); ok { // an update has the same methods
			write.GetObject().(metav1.Object).SetResourceVersion(strconv.FormatInt(100+writes.Add(1), 10))
		}
		return false, nil, nil
	})
}

// Late is a cache that never shows what was written.
type Late struct{}

// LastStoreSyncResourceVersion is older than any that an API server gives.
func (Late) LastStoreSyncResourceVersion() string { return "1" }
