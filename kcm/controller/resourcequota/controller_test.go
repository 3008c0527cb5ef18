package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

var quotas = corev1.SchemeGroupVersion.WithResource("resourcequotas")

var comets = schema.GroupVersionResource{Group: "far.example.com", Version: "v1", Resource: "comets"}

func comet(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "far.example.com/v1", Kind: "Comet"}, ObjectMeta: meta(name)}
}

// cluster is one in a bubble, where it is midnight on January 1, 2000.
type cluster struct {
	t        *testing.T
	client   *fake.Clientset
	metadata *metadatafake.FakeMetadataClient
	loop     *Controller
	begin    time.Time

	mu sync.Mutex
	// version is the newest that something has.
	version int
	// written are the statuses that were written, and when.
	written []string
	// kinds is what discovery answers.
	kinds    []*metav1.APIResourceList
	kindsErr error
	// refuse is what the API server says to a write.
	refuse error
	// policyEnds is until when a policy refuses each status.
	policyEnds time.Time
}

func (c *cluster) discovers(kinds ...*metav1.APIResourceList) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds = kinds
}

func cometsAreServed() *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: "far.example.com/v1", APIResources: []metav1.APIResource{
		{Name: "comets", Kind: "Comet", Namespaced: true, Verbs: metav1.Verbs{"create", "delete", "list", "watch"}},
	}}
}

func notesAreServed() *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: metav1.Verbs{"create", "delete", "list", "watch"}},
	}}
}

// writes runs the loop in a cluster with some objects while something happens
// there, and returns what it has written: "0s pods=1".
func writes(t *testing.T, happens func(c *cluster), objects ...runtime.Object) string {
	t.Helper()
	c := &cluster{t: t}
	synctest.Test(t, func(t *testing.T) {
		scheme := metadatafake.NewTestScheme()
		require.NoError(t, metav1.AddMetaToScheme(scheme))
		var full, others []runtime.Object
		for _, o := range objects {
			if _, ok := o.(*metav1.PartialObjectMetadata); ok {
				others = append(others, o)
			} else {
				full = append(full, o)
			}
		}
		c.begin = time.Now()
		c.client, c.metadata = fake.NewSimpleClientset(full...), metadatafake.NewSimpleMetadataClient(scheme, others...)
		c.client.PrependReactor("update", "resourcequotas", c.writes)
		factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(controller.Trim(Reads...)))
		c.loop = NewController(t.Context(), &ControllerOptions{
			QuotaClient:           c.client.CoreV1(),
			ResourceQuotaInformer: factory.Core().V1().ResourceQuotas(),
			ResyncPeriod:          func() time.Duration { return 5 * time.Minute },
			DiscoveryFunc: func() ([]*metav1.APIResourceList, error) {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.kinds, c.kindsErr
			},
			InformerFactory: factory, Metadata: c.metadata,
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		factory.Start(ctx.Done())
		synctest.Wait() // of what happens before it watches, an informer of this API server would never hear
		go func() { c.loop.Run(ctx, 2); close(ended) }()
		time.Sleep(time.Second)
		happens(c)
		stop()
		select {
		case <-ended:
		case <-time.After(time.Hour):
			assert.Fail(t, "Run has not returned an hour after its context had ended")
		}
		factory.Shutdown()
	})
	if c.written == nil {
		return "nothing"
	}
	return strings.Join(c.written, "; ")
}

func (c *cluster) writes(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refuse; err != nil {
		c.refuse = nil
		c.written = append(c.written, "refused")
		return true, nil, err
	}
	q := action.(clienttesting.UpdateAction).GetObject().(*corev1.ResourceQuota)
	if action.GetSubresource() != "status" {
		return false, nil, nil
	}
	if time.Now().Before(c.policyEnds) {
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ResourceQuota"}, q.Name, nil)
	}
	stored, err := c.client.Tracker().Get(quotas, q.Namespace, q.Name)
	if err == nil && stored.(*corev1.ResourceQuota).ResourceVersion != q.ResourceVersion {
		return true, nil, apierrors.NewConflict(quotas.GroupResource(), q.Name, errors.New("it was made of an older one"))
	}
	q.ResourceVersion = c.nextVersion()
	at := time.Since(c.begin).Truncate(time.Second)
	c.written = append(c.written, fmt.Sprintf("%s %s: %s", at, q.Name, written(q.Status.Used)))
	return false, nil, nil
}

func (c *cluster) create(p *corev1.Pod) {
	_, err := c.client.CoreV1().Pods(p.Namespace).Create(c.t.Context(), p, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

func (c *cluster) delete(name string) {
	require.NoError(c.t, c.client.CoreV1().Pods("here").Delete(c.t.Context(), name, metav1.DeleteOptions{}))
}

// write has a quota be as somebody else has written it.
func (c *cluster) write(q *corev1.ResourceQuota) {
	c.mu.Lock()
	q.ResourceVersion = c.nextVersion()
	c.mu.Unlock()
	require.NoError(c.t, c.client.Tracker().Update(quotas, q, q.Namespace))
}

// nextVersion is called while mu is held.
func (c *cluster) nextVersion() string {
	c.version++
	return strconv.Itoa(c.version)
}

func TestQuotasAreCounted(t *testing.T) {
	t.Parallel()
	wait := func(*cluster) { time.Sleep(4 * time.Minute) }
	t.Run("what was there before", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "0s limit: cpu=1 pods=2", writes(t, wait,
			quota("limit", "pods=9 cpu=9"), pod("first", asks("cpu=1", "")), pod("second"), with(pod("elsewhere"), func(p *corev1.Pod) { p.Namespace = "there" })))
	})
	t.Run("one that is as it should be is not written", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "nothing", writes(t, wait, countedQuota("limit", "pods=9", "pods=1"), pod("first")))
	})
	t.Run("when something goes, at once", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "1s limit: pods=1", writes(t, func(c *cluster) { c.delete("first"); wait(c) },
			countedQuota("limit", "pods=9", "pods=2"), pod("first"), pod("second")))
	})
	t.Run("when something comes, after five seconds", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "6s limit: pods=2", writes(t, func(c *cluster) {
			c.create(pod("first"))
			time.Sleep(time.Second)
			c.create(pod("second"))
			wait(c)
		}, countedQuota("limit", "pods=9", "pods=0")))
	})
	t.Run("what comes and is in the status already is not written", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "nothing", writes(t, func(c *cluster) {
			c.write(countedQuota("limit", "pods=9", "pods=1"))
			c.create(pod("first"))
			wait(c)
		}, countedQuota("limit", "pods=9", "pods=0")))
	})
	t.Run("when a pod that was to be gone has had its time twice", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "20s limit: pods=0", writes(t, wait,
			countedQuota("limit", "pods=9", "pods=1"), with(pod("first"), func(p *corev1.Pod) {
				p.DeletionTimestamp = &metav1.Time{Time: time.Date(2000, 1, 1, 0, 0, 10, 0, time.UTC)}
				p.DeletionGracePeriodSeconds = ptr.To(int64(10))
				p.Finalizers = []string{"example.com/held"}
			})))
	})
	t.Run("with another limit at once", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "1s limit: pods=1", writes(t, func(c *cluster) {
			c.write(with(countedQuota("limit", "pods=9", "pods=1"), func(q *corev1.ResourceQuota) { q.Spec.Hard = list("pods=5") }))
			wait(c)
		}, countedQuota("limit", "pods=9", "pods=1"), pod("first")))
	})
	t.Run("when the API server has charged something and not stored it", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "10s limit: pods=1", writes(t, func(c *cluster) {
			c.write(countedQuota("limit", "pods=9", "pods=2"))
			wait(c)
		}, countedQuota("limit", "pods=9", "pods=1"), pod("first")))
	})
	t.Run("also while it charges more", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "10s limit: pods=2; 15s limit: pods=1", writes(t, func(c *cluster) {
			c.write(countedQuota("limit", "pods=9", "pods=2"))
			time.Sleep(6 * time.Second)
			c.write(countedQuota("limit", "pods=9", "pods=3"))
			wait(c)
		}, countedQuota("limit", "pods=9", "pods=1"), pod("first")))
	})
	t.Run("not before what the API server has charged is to be seen", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "nothing", writes(t, func(c *cluster) {
			c.write(countedQuota("limit", "pods=9 count/comets.far.example.com=9", "pods=1"))
			time.Sleep(3 * time.Second)
			c.create(pod("late"))
			wait(c)
		}, countedQuota("limit", "pods=9 count/comets.far.example.com=9", "pods=0")))
	})
	t.Run("what goes takes nothing along that was charged and is not to be seen", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "1s limit: pods=1", writes(t, func(c *cluster) {
			c.write(countedQuota("limit", "pods=9", "pods=2"))
			c.delete("first")
			time.Sleep(3 * time.Second)
			c.create(pod("late"))
			wait(c)
		}, countedQuota("limit", "pods=9", "pods=1"), pod("first")))
	})
	t.Run("each quota by what it counts of what goes", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "1s all: cpu=1 pods=2; 5s light: pods=0", writes(t, func(c *cluster) {
			c.delete("first")
			wait(c)
		}, countedQuota("all", "pods=9 cpu=9", "pods=3 cpu=2"), countedQuota("light", "pods=9", "pods=1", corev1.ResourceQuotaScopeBestEffort),
			pod("first", asks("cpu=1", "")), pod("second", asks("cpu=1", "")), pod("third", asks("memory=1", ""))))
	})
	t.Run("from time to time, whatever has happened", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "refused; 5m0s limit: pods=0", writes(t, func(c *cluster) {
			c.mu.Lock()
			c.refuse = apierrors.NewNotFound(schema.GroupResource{Resource: "resourcequotas"}, "limit") // it comes back
			c.mu.Unlock()
			c.delete("first")
			time.Sleep(6 * time.Minute)
		}, countedQuota("limit", "pods=9", "pods=1"), pod("first")))
	})
	t.Run("after a conflict, as soon as the other status is to be seen", func(t *testing.T) {
		t.Parallel()
		conflict := apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "limit", errors.New("written since"))
		assert.Equal(t, "refused; 1s limit: pods=0", writes(t, func(c *cluster) {
			c.mu.Lock()
			c.refuse = conflict
			c.mu.Unlock()
			c.delete("first")
			time.Sleep(controller.StaleDelay / 2)
			c.write(with(countedQuota("limit", "pods=9", "pods=1"), func(q *corev1.ResourceQuota) { q.Labels = map[string]string{"team": "a"} }))
			synctest.Wait()
		}, countedQuota("limit", "pods=9", "pods=1"), pod("first")))
	})
	t.Run("soon after the API server has ceased to refuse the status", func(t *testing.T) {
		t.Parallel()
		assert.Regexp(t, "^1h1m[0-9]+s limit: pods=0$", writes(t, func(c *cluster) {
			c.mu.Lock()
			c.policyEnds = c.begin.Add(61 * time.Minute)
			c.mu.Unlock()
			c.write(with(countedQuota("limit", "pods=9", "pods=1"), func(q *corev1.ResourceQuota) { q.Spec.Hard = list("pods=5") }))
			synctest.Wait() // the new limit is refused first
			c.delete("first")
			time.Sleep(90 * time.Minute)
		}, countedQuota("limit", "pods=9", "pods=1"), pod("first")))
	})
	t.Run("again after a conflict", func(t *testing.T) {
		t.Parallel()
		conflict := apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "limit", errors.New("written since"))
		assert.Equal(t, "refused; 1s limit: pods=0", writes(t, func(c *cluster) {
			c.mu.Lock()
			c.refuse = conflict
			c.mu.Unlock()
			c.delete("first")
			wait(c)
		}, countedQuota("limit", "pods=9", "pods=1"), pod("first")))
	})
}

func TestWhatQuotasLimitIsWatched(t *testing.T) {
	t.Parallel()
	limit := quota("limit", "pods=9 count/comets.far.example.com=9")
	t.Run("a resource that is defined later is found, and counted", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "0s limit: pods=1; 30s limit: count/comets.far.example.com=1 pods=1", writes(t, func(c *cluster) {
			c.discovers(notesAreServed(), cometsAreServed())
			time.Sleep(time.Minute)
		}, limit, pod("first"), comet("halley")))
	})
	t.Run("one that cannot be listed keeps no other from being counted", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "31s limit: pods=1", writes(t, func(c *cluster) {
			c.metadata.PrependReactor("list", "comets", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("the program behind it is down")
			})
			c.discovers(notesAreServed(), cometsAreServed())
			c.write(with(limit.DeepCopy(), func(q *corev1.ResourceQuota) { q.Annotations = map[string]string{"look": "again"} }))
			time.Sleep(2 * time.Minute)
		}, with(quota("limit", "count/comets.far.example.com=9"), func(q *corev1.ResourceQuota) {
			q.Status.Hard = list("count/comets.far.example.com=9")
		}), pod("first")))
	})
	t.Run("one whose last quota goes is watched no more", func(t *testing.T) {
		t.Parallel()
		var during, after *monitor
		writes(t, func(c *cluster) {
			c.discovers(notesAreServed(), cometsAreServed())
			time.Sleep(time.Minute)
			during = c.monitor(comets.GroupResource())
			require.NoError(t, c.client.CoreV1().ResourceQuotas("here").Delete(t.Context(), "limit", metav1.DeleteOptions{}))
			time.Sleep(time.Minute)
			after = c.monitor(comets.GroupResource())
		}, limit)
		assert.NotNil(t, during, "the monitor of comets, while a quota limits them")
		assert.Nil(t, after, "the monitor of comets, when no quota does")
	})
	t.Run("what is no resource is forgotten with its last quota", func(t *testing.T) {
		t.Parallel()
		var during, after bool
		writes(t, func(c *cluster) {
			invented := schema.ParseGroupResource("shoes.example.com")
			during = c.knows(invented)
			c.write(countedQuota("limit", "pods=9", "pods=0"))
			time.Sleep(time.Minute)
			after = c.knows(invented)
		}, quota("limit", "pods=9 count/shoes.example.com=9"))
		assert.True(t, during, "whether it is known, while a quota limits it")
		assert.False(t, after, "when no quota does")
	})
	t.Run("one that discovery cannot tell about stays", func(t *testing.T) {
		t.Parallel()
		var before, during, later *monitor
		writes(t, func(c *cluster) {
			c.discovers(notesAreServed(), cometsAreServed())
			time.Sleep(time.Minute)
			before = c.monitor(comets.GroupResource())
			c.discovers(notesAreServed())
			c.mu.Lock()
			c.kindsErr = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{comets.GroupVersion(): errors.New("no answer")}}
			c.mu.Unlock()
			time.Sleep(time.Minute)
			during = c.monitor(comets.GroupResource())
			c.mu.Lock()
			c.kindsErr = nil
			c.mu.Unlock()
			time.Sleep(time.Minute)
			later = c.monitor(comets.GroupResource())
		}, limit)
		assert.NotNil(t, before)
		assert.Same(t, before, during, "the monitor while the API server cannot tell")
		assert.Nil(t, later, "the monitor when the resource is gone")
	})
	t.Run("that there is no resource at all is not believed", func(t *testing.T) {
		t.Parallel()
		var before, after *monitor
		writes(t, func(c *cluster) {
			c.discovers(notesAreServed(), cometsAreServed())
			time.Sleep(time.Minute)
			before = c.monitor(comets.GroupResource())
			c.discovers()
			time.Sleep(time.Minute)
			after = c.monitor(comets.GroupResource())
		}, limit)
		assert.NotNil(t, before)
		assert.Same(t, before, after, "the monitor after an empty answer")
	})
	t.Run("events are not", func(t *testing.T) {
		t.Parallel()
		events := &metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "events", Kind: "Event", Namespaced: true, Verbs: metav1.Verbs{"create", "delete", "list", "watch"}},
		}}
		var watched *monitor
		writes(t, func(c *cluster) {
			c.discovers(events)
			time.Sleep(time.Minute)
			watched = c.monitor(schema.GroupResource{Resource: "events"})
		}, quota("limit", "count/events=1"))
		assert.Nil(t, watched)
	})
}

// elsewhere has something happen in a process of its own, in which panics do not
// crash, and returns whether that has failed and what it has printed.
func elsewhere(t *testing.T, happens func()) (failed bool, log string) {
	t.Helper()
	if os.Getenv("ELSEWHERE") != "" {
		controller.ReallyCrash.Store(false)
		happens()
		t.SkipNow()
	}
	test := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	test.Env = append(os.Environ(), "ELSEWHERE=true")
	output, err := test.CombinedOutput()
	return err != nil, string(output)
}

func TestAPanicWhileAnObjectIsChargedEndsTheProcess(t *testing.T) {
	t.Parallel()
	for name, appears := range map[string]func(c *cluster){
		"pod": func(c *cluster) { c.create(pod("first")) },
		"comet": func(c *cluster) {
			require.NoError(c.t, c.metadata.Tracker().Create(comets, comet("halley"), "here"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed, log := elsewhere(t, func() {
				writes(t, func(c *cluster) {
					c.discovers(cometsAreServed(), notesAreServed())
					time.Sleep(time.Minute)
					c.loop.mu.Lock()
					for _, m := range c.loop.monitors {
						m.tally = nil
					}
					c.loop.mu.Unlock()
					appears(c)
					time.Sleep(time.Minute)
				}, quota("limit", "pods=9 count/comets.far.example.com=9"))
			})
			assert.True(t, failed, "a tally that has missed an object would be wrong from then on")
			assert.Contains(t, log, "(*tally).charged")
		})
	}
}

func (c *cluster) knows(resource schema.GroupResource) bool {
	c.loop.mu.Lock()
	defer c.loop.mu.Unlock()
	_, known := c.loop.monitors[resource]
	return known
}

func (c *cluster) monitor(resource schema.GroupResource) *monitor {
	c.loop.mu.Lock()
	defer c.loop.mu.Unlock()
	return c.loop.monitors[resource]
}
