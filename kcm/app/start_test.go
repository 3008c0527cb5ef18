package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	cmhealthz "k8s.io/controller-manager/pkg/healthz"
)

// fakeLoop waits until ctx ends and then stopFor.
type fakeLoop struct {
	started chan int
	stopFor time.Duration
}

func newFakeLoop() *fakeLoop { return &fakeLoop{started: make(chan int, 1)} }

func (l *fakeLoop) Run(ctx context.Context, workers int) {
	l.started <- workers
	<-ctx.Done()
	time.Sleep(l.stopFor)
}

// talkingLoop shows something of itself.
type talkingLoop struct{ *fakeLoop }

func (l talkingLoop) DebuggingHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("at " + r.URL.Path)) })
}

func (l talkingLoop) HealthChecker() cmhealthz.UnnamedHealthChecker { return l }

func (l talkingLoop) Check(*http.Request) error { return errors.New("not well") }

func descriptor(name string, loop Loop) *ControllerDescriptor {
	return &ControllerDescriptor{name: name, constructor: func(context.Context, *ControllerContext, kubernetes.Interface) (*Controller, error) {
		return &Controller{Loop: loop, Workers: 3}, nil
	}}
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w
}

func TestControllersRunUntilTheContextEndsAndAreWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		loop := newFakeLoop()
		loop.stopFor = 4 * time.Second
		ctx, cancel := context.WithCancel(t.Context())
		c := testContext("*")
		done := make(chan error, 1)
		go func() {
			done <- StartControllers(ctx, c, []*ControllerDescriptor{descriptor("a", loop)}, mux.NewPathRecorderMux("test"), cmhealthz.NewMutableHealthzHandler())
		}()
		assert.Equal(t, 3, <-loop.started)
		<-c.InformersStarted
		stopped := time.Now()
		cancel()
		require.NoError(t, <-done)
		assert.Equal(t, 4*time.Second, time.Since(stopped))
	})
}

func TestAControllerThatDoesNotStopInTimeIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		loop := newFakeLoop()
		loop.stopFor = time.Minute
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- StartControllers(ctx, testContext("*"), []*ControllerDescriptor{descriptor("slow", loop)}, mux.NewPathRecorderMux("test"), cmhealthz.NewMutableHealthzHandler())
		}()
		<-loop.started
		cancel()
		assert.EqualError(t, <-done, "after --controller-shutdown-timeout=10s: still running: slow")
		synctest.Wait()
		time.Sleep(time.Minute) // the loop stops after all; the bubble's time is not ours
	})
}

func TestAnInformerThatDoesNotStopInTimeIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := testContext("*")
		c.InformerFactory = informers.NewSharedInformerFactory(fake.NewClientset(&corev1.ConfigMap{}), 0)
		handling, release := make(chan struct{}), make(chan struct{})
		_, err := c.InformerFactory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { close(handling); <-release },
		})
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			done <- StartControllers(ctx, c, []*ControllerDescriptor{descriptor("a", newFakeLoop())}, mux.NewPathRecorderMux("test"), cmhealthz.NewMutableHealthzHandler())
		}()
		<-handling
		stopped := time.Now()
		cancel()
		select {
		case err := <-done:
			assert.EqualError(t, err, "after --controller-shutdown-timeout=10s: still running: shared informers")
			assert.Equal(t, 10*time.Second, time.Since(stopped))
		case <-time.After(time.Hour):
			assert.Fail(t, "StartControllers waits for an informer an hour after its context has ended")
		}
		close(release)
	})
}

func TestOnlyWantedControllersAreBuilt(t *testing.T) {
	t.Parallel()
	special := descriptor("special", newFakeLoop())
	special.requiresSpecialHandling = true
	off := descriptor("off-by-default", newFakeLoop())
	off.disabledByDefault = true
	gated := descriptor("gated", newFakeLoop())
	gated.requiredFeatureGates = append(gated.requiredFeatureGates, "AllAlpha")
	nothing := &ControllerDescriptor{name: "nothing", constructor: func(context.Context, *ControllerContext, kubernetes.Interface) (*Controller, error) { return nil, nil }}
	all := []*ControllerDescriptor{descriptor("a", newFakeLoop()), descriptor("b", newFakeLoop()), off, gated, nothing, special}

	for wanted, test := range map[string]struct {
		controllers []string
		built       []string
	}{
		"all":                     {[]string{"*"}, []string{"a", "b", "special"}},
		"all but one":             {[]string{"*", "-b"}, []string{"a", "special"}},
		"one":                     {[]string{"b"}, []string{"b", "special"}},
		"one more":                {[]string{"*", "off-by-default"}, []string{"a", "b", "off-by-default", "special"}},
		"special is built anyway": {[]string{"-special"}, []string{"special"}},
	} {
		t.Run(wanted, func(t *testing.T) {
			t.Parallel()
			controllers, err := buildControllers(t.Context(), testContext(test.controllers...), all, mux.NewPathRecorderMux("test"), cmhealthz.NewMutableHealthzHandler())
			require.NoError(t, err)
			var built []string
			for name := range controllers {
				built = append(built, name)
			}
			assert.ElementsMatch(t, test.built, built)
		})
	}
}

func TestWhatTheOthersDependOnIsBuiltFirst(t *testing.T) {
	t.Parallel()
	var order []string
	record := func(name string, special bool) *ControllerDescriptor {
		return &ControllerDescriptor{name: name, requiresSpecialHandling: special, constructor: func(context.Context, *ControllerContext, kubernetes.Interface) (*Controller, error) {
			order = append(order, name)
			return nil, nil
		}}
	}
	_, err := buildControllers(t.Context(), testContext("*"),
		[]*ControllerDescriptor{record("a", false), record("tokens", true), record("b", false)}, mux.NewPathRecorderMux("test"), cmhealthz.NewMutableHealthzHandler())
	require.NoError(t, err)
	assert.Equal(t, []string{"tokens", "a", "b"}, order)
}

// toldCloud notes what it is told.
type toldCloud struct {
	cloudprovider.Interface
	told func(string)
}

func (c toldCloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
	c.told("initialised")
}

func (c toldCloud) SetInformers(informers.SharedInformerFactory) { c.told("given the informers") }

func TestTheLoopsOfACloudAreBuiltWhereThereIsOne(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cloud       bool
		controllers []string
		want        []string
	}{
		"without a cloud they are left out":                      {false, []string{"*"}, []string{"tokens", "pods"}},
		"the cloud begins once, after what the others depend on": {true, []string{"*"}, []string{"tokens", "pods", "initialised", "given the informers", "routes", "nodes"}},
		"without one that is wanted the cloud does not begin":    {true, []string{"pods"}, []string{"tokens", "pods"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var story []string
			build := func(name string) ControllerConstructor {
				return func(context.Context, *ControllerContext, kubernetes.Interface) (*Controller, error) {
					story = append(story, name)
					return nil, nil
				}
			}
			c := testContext(test.controllers...)
			if test.cloud {
				c.Cloud = toldCloud{told: func(what string) { story = append(story, what) }}
			}
			_, err := buildControllers(t.Context(), c, []*ControllerDescriptor{
				{name: "pods", constructor: build("pods")},
				{name: "routes", constructor: build("routes"), isCloudProvider: true},
				{name: "nodes", constructor: build("nodes"), isCloudProvider: true},
				{name: "tokens", constructor: build("tokens"), requiresSpecialHandling: true},
			}, mux.NewPathRecorderMux("test"), cmhealthz.NewMutableHealthzHandler())
			require.NoError(t, err)
			assert.Equal(t, test.want, story)
		})
	}
}

func TestAControllerThatCannotBeBuiltStopsTheStart(t *testing.T) {
	t.Parallel()
	broken := &ControllerDescriptor{name: "broken", constructor: func(context.Context, *ControllerContext, kubernetes.Interface) (*Controller, error) {
		return nil, errors.New("no key")
	}}
	err := StartControllers(t.Context(), testContext("*"), []*ControllerDescriptor{broken}, mux.NewPathRecorderMux("test"), cmhealthz.NewMutableHealthzHandler())
	assert.EqualError(t, err, "build broken: no key")
}

func TestEachControllerHasAHealthCheckAndMayShowItself(t *testing.T) {
	t.Parallel()
	m, health := mux.NewPathRecorderMux("test"), cmhealthz.NewMutableHealthzHandler()
	_, err := buildControllers(t.Context(), testContext("*"),
		[]*ControllerDescriptor{descriptor("quiet", newFakeLoop()), descriptor("talking", talkingLoop{newFakeLoop()})}, m, health)
	require.NoError(t, err)

	response := get(health, "/healthz?verbose")
	assert.Equal(t, http.StatusInternalServerError, response.Code)
	assert.Contains(t, response.Body.String(), "[+]quiet ok")
	assert.Contains(t, response.Body.String(), "[-]talking failed")

	assert.Equal(t, "at ", get(m, "/debug/controllers/talking").Body.String())
	assert.Equal(t, "at /queue", get(m, "/debug/controllers/talking/queue").Body.String())
	assert.Equal(t, http.StatusNotFound, get(m, "/debug/controllers/quiet").Code)
}
