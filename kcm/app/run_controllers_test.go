package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/clientbuilder"
)

func testContext(controllers ...string) *ControllerContext {
	c := &ControllerContext{
		InformerFactory:   informers.NewSharedInformerFactory(fake.NewClientset(), 0),
		ClientBuilder:     clientbuilder.SimpleControllerClientBuilder{ClientConfig: &rest.Config{}},
		RootClientBuilder: clientbuilder.SimpleControllerClientBuilder{ClientConfig: &rest.Config{}},
		InformersStarted:  make(chan struct{}),
		Metrics:           controllersmetrics.NewControllerManagerMetrics("test"),
		shutdownTimeout:   10 * time.Second,
	}
	c.ComponentConfig.Generic.Controllers = controllers
	return c
}

// managed are controllers that runControllers runs in a bubble, what becomes of them,
// and when.
type managed struct {
	context *ControllerContext
	begun   time.Time
	stop    context.CancelFunc
	result  chan error

	mu      sync.Mutex
	started map[string]time.Duration // after the beginning
	history []string
}

func (m *managed) note(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.history = append(m.history, text)
}

// told is what has happened so far, in an order of its own.
func (m *managed) told() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.history)
	return strings.Join(append(m.history, "that is all"), "; ")
}

// managedLoop needs some time to stop.
type managedLoop struct {
	*managed
	name    string
	stopFor time.Duration
}

func (l managedLoop) Run(ctx context.Context, workers int) {
	l.mu.Lock()
	l.started[l.name] = time.Since(l.begun)
	l.mu.Unlock()
	l.note(fmt.Sprintf("%s runs with %d workers", l.name, workers))
	<-ctx.Done()
	time.Sleep(l.stopFor)
	l.note(l.name + " has stopped")
}

// manage begins to run controllers, each of which needs some time to stop.
func manage(t *testing.T, c *ControllerContext, stopFor map[string]time.Duration) *managed {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	m := &managed{context: c, begun: time.Now(), stop: stop, result: make(chan error, 1), started: map[string]time.Duration{}}
	controllers := map[string]*Controller{}
	for name, d := range stopFor {
		controllers[name] = &Controller{Loop: managedLoop{m, name, d}, Workers: len(name)}
	}
	c.InformerFactory.Start(ctx.Done())
	go func() { m.result <- runControllers(ctx, c, controllers) }()
	return m
}

// end tells the controllers to stop, and returns what runControllers then does, and
// after how long.
func (m *managed) end() string {
	told := time.Now()
	m.stop()
	select {
	case err := <-m.result:
		return m.outcome(err) + " after " + time.Since(told).String()
	case <-time.After(24 * time.Hour):
		return "it has not returned after a day"
	}
}

func (m *managed) outcome(err error) string {
	if err == nil {
		return "it returns"
	}
	var named []string
	for _, name := range []string{"a", "slow", "tardy", "shared informers"} {
		if slices.Contains(strings.FieldsFunc(strings.ReplaceAll(err.Error(), "shared informers", "informers"), func(r rune) bool { return !('a' <= r && r <= 'z') }),
			strings.TrimPrefix(name, "shared ")) {
			named = append(named, name)
		}
	}
	verdict := "it fails"
	if errors.Is(err, errStillRunning) {
		verdict = "it fails, as work still running"
	}
	return verdict + ": " + strings.Join(named, ", ")
}

//exercise:race
func TestRunningTheControllers(t *testing.T) {
	t.Parallel()
	const second, minute = time.Second, time.Minute
	check := func(behaviour string, body func(t *testing.T)) {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, body)
		})
	}
	waiting := func(interval, timeout time.Duration) *ControllerContext {
		c := testContext()
		c.ComponentConfig.Generic.ControllerStartInterval = metav1.Duration{Duration: interval}
		c.shutdownTimeout = timeout
		return c
	}
	// handling is a context with an informer, one of whose handlers returns after a while.
	handling := func(t *testing.T, timeout, busy time.Duration) (c *ControllerContext, handled <-chan struct{}) {
		c = waiting(0, timeout)
		c.InformerFactory = informers.NewSharedInformerFactory(fake.NewClientset(&corev1.ConfigMap{}), 0)
		done := make(chan struct{})
		_, err := c.InformerFactory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { time.Sleep(busy); close(done) },
		})
		require.NoError(t, err)
		return c, done
	}

	check("each controller runs, with as many workers as it has", func(t *testing.T) {
		m := manage(t, waiting(0, 10*second), map[string]time.Duration{"a": 0, "bbb": 0})
		synctest.Wait()
		assert.Equal(t, "a runs with 1 workers; bbb runs with 3 workers; that is all", m.told(), "a has one worker, and bbb three")
		m.end()
	})
	check("controllers start side by side, after one to two intervals", func(t *testing.T) {
		m := manage(t, waiting(10*second, 10*second), map[string]time.Duration{"a": 0, "b": 0, "c": 0, "d": 0, "e": 0})
		time.Sleep(5 * minute)
		m.mu.Lock()
		started := fmt.Sprint(m.started)
		var early, late int
		for _, after := range m.started {
			if after < 10*second {
				early++
			}
			if after > 20*second {
				late++
			}
		}
		total := len(m.started)
		m.mu.Unlock()
		assert.Equal(t, "5 started; 0 before 10 s; 0 after 20 s", fmt.Sprintf("%d started; %d before 10 s; %d after 20 s", total, early, late),
			"there are five controllers, and the interval is 10 s: %s", started)
		m.end()
	})
	check("it does not return while the controllers are to run", func(t *testing.T) {
		m := manage(t, waiting(0, 10*second), map[string]time.Duration{"a": 0})
		time.Sleep(time.Hour)
		select {
		case err := <-m.result:
			assert.Fail(t, "it has returned within an hour, and nobody has told it to stop", m.outcome(err))
		default:
		}
		m.end()
	})
	check("it returns when the last controller has stopped", func(t *testing.T) {
		m := manage(t, waiting(0, 10*second), map[string]time.Duration{"a": 4 * second, "b": 7 * second})
		synctest.Wait()
		assert.Equal(t, "it returns after 7s", m.end(), "a needs 4 s to stop, and b 7 s")
		assert.Equal(t, "a has stopped; a runs with 1 workers; b has stopped; b runs with 1 workers; that is all", m.told())
	})
	check("a controller that has not started yet keeps nobody waiting, and does not start", func(t *testing.T) {
		m := manage(t, waiting(10*minute, 10*second), map[string]time.Duration{"a": 0})
		time.Sleep(second)
		assert.Equal(t, "it returns after 0s", m.end(), "the interval is 10 minutes, and it is told to stop after a second")
		time.Sleep(time.Hour)
		assert.Equal(t, "that is all", m.told())
	})
	check("controllers that do not stop in time are named", func(t *testing.T) {
		m := manage(t, waiting(0, 10*second), map[string]time.Duration{"a": second, "slow": minute, "tardy": minute})
		synctest.Wait()
		assert.Equal(t, "it fails, as work still running: slow, tardy after 10s", m.end(), "slow and tardy need a minute to stop, a needs a second, and the limit is 10 s")
		time.Sleep(minute)
	})
	check("informers that do not stop in time are named", func(t *testing.T) {
		c, handled := handling(t, 10*second, time.Hour)
		m := manage(t, c, map[string]time.Duration{"a": 0})
		time.Sleep(second)
		assert.Equal(t, "it fails, as work still running: shared informers after 10s", m.end(), "a handler needs an hour, and the limit is 10 s")
		<-handled
	})
	check("no handler is called any more when it returns", func(t *testing.T) {
		c, handled := handling(t, 10*second, 4*second)
		m := manage(t, c, map[string]time.Duration{"a": 0})
		time.Sleep(second)
		assert.Equal(t, "it returns after 3s", m.end(), "it is told to stop while a handler needs 3 s more")
		<-handled
	})
	check("without a limit it waits as long as it takes", func(t *testing.T) {
		m := manage(t, waiting(0, 0), map[string]time.Duration{"slow": time.Hour})
		synctest.Wait()
		assert.Equal(t, "it returns after 1h0m0s", m.end(), "slow needs an hour to stop, and the limit is 0")
	})
}
