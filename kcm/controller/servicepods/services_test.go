package servicepods

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
)

// given returns an index of the Services; selectors are as in "app=web,tier=front".
func given(t require.TestingT, selectors map[string]string) Services {
	informer := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Services().Informer()
	services := NewServices(informer)
	for name, selector := range selectors {
		namespace := "default"
		if before, after, ok := strings.Cut(name, "/"); ok {
			namespace, name = before, after
		}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if selector != "" {
			service.Spec.Selector = set(selector)
		}
		require.NoError(t, informer.GetIndexer().Add(service))
	}
	return services
}

func set(text string) labels.Set {
	parsed, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		panic(err)
	}
	return parsed
}

func labelled(text string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: set(text)}}
}

// names returns Services as text, in the order of their names.
func names(services []cache.ObjectName) string {
	var names []string
	for _, service := range services {
		names = append(names, service.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestAPodIsComparedWithALongSelectorWithoutMakingItAnew(t *testing.T) {
	wanted := map[string]string{"app": "web"}
	for i := range 2000 {
		wanted[fmt.Sprint("label-", i)] = "a"
	}
	services := given(t, nil)
	require.NoError(t, services.indexer.Add(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "long"}, Spec: corev1.ServiceSpec{Selector: wanted},
	}))
	pod := labelled("app=web")
	assert.Less(t, testing.AllocsPerRun(10, func() { services.Selecting(pod) }), 50.0, "allocations for one pod")
	assert.Empty(t, services.Selecting(pod))
	pod.Labels = wanted
	assert.Equal(t, "long", names(services.Selecting(pod)))
}

func TestServicesThatSelectAPod(t *testing.T) {
	t.Parallel()
	services := given(t, map[string]string{
		"web": "app=web", "front": "app=web,tier=front", "db": "app=db", "all-front": "tier=front",
		"by-hand": "", "elsewhere/web": "app=web",
	})
	for what, test := range map[string]struct{ labels, want string }{
		"a pod with one label is selected by it":                   {"app=web", "web"},
		"all labels of a selector have to be there":                {"app=web,tier=back", "web"},
		"a pod may be selected by several Services":                {"app=web,tier=front", "all-front front web"},
		"a Service without a selector selects nothing":             {"", ""},
		"a Service of another namespace does not select it":        {"app=web,tier=x", "web"},
		"a value that only begins like the selector's is no match": {"app=web2", ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, names(services.Selecting(labelled(test.labels))), "of the pod with %q", test.labels)
		})
	}
	t.Run("of several labels the one whose key is the first counts", func(t *testing.T) {
		t.Parallel()
		keys, err := selectorKeys(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default"},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"c": "1", "a": "2", "b": "3"}}})
		require.NoError(t, err)
		assert.Equal(t, []string{selectorKey("default", "a", "2")}, keys, "of a Service that selects a=2, b=3 and c=1")
	})
	t.Run("a Service is filed where it was filed before", func(t *testing.T) {
		t.Parallel()
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default"},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}}}
		first, err := selectorKeys(service)
		require.NoError(t, err)
		for range 100 {
			again, err := selectorKeys(service)
			require.NoError(t, err)
			require.Equal(t, first, again, "of the same Service: the index takes it out under the keys that it gets then")
		}
	})
	t.Run("a Service without a selector is not filed at all", func(t *testing.T) {
		t.Parallel()
		keys, err := selectorKeys(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}})
		require.NoError(t, err)
		assert.Empty(t, keys)
	})
	t.Run("a Service is looked at for its own pods only", func(t *testing.T) {
		t.Parallel()
		keys := map[string]int{}
		for i := range 100 {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default"},
				Spec: corev1.ServiceSpec{Selector: map[string]string{"app": fmt.Sprint("web-", i)}}}
			found, err := selectorKeys(service)
			require.NoError(t, err)
			for _, key := range found {
				keys[key]++
			}
		}
		assert.Len(t, keys, 100, "100 Services with 100 selectors are under %d keys: a pod of one finds the others, too", len(keys))
	})
}

func TestTheIndexFindsWhatALookAtAllServicesFinds(t *testing.T) {
	t.Parallel()
	some := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"1", "2"}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		selectors := rapid.SliceOfN(some, 0, 8).Draw(t, "selectors")
		all := map[string]string{}
		for i, selector := range selectors {
			all[fmt.Sprint("s", i)] = labels.Set(selector).String()
		}
		pod := labelled(labels.Set(some.Draw(t, "labels")).String())
		var want []string
		for name, selector := range all {
			if selector != "" && labels.SelectorFromSet(set(selector)).Matches(labels.Set(pod.Labels)) {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		assert.Equal(t, strings.Join(want, " "), names(given(t, all).Selecting(pod)))
	})
}

func TestServicesThatAChangeOfAPodConcerns(t *testing.T) {
	t.Parallel()
	services := given(t, map[string]string{"web": "app=web", "blue": "color=blue", "green": "color=green"})
	running := func(text string, change ...func(*corev1.Pod)) *corev1.Pod {
		pod := labelled(text)
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}
		for _, c := range change {
			c(pod)
		}
		return pod
	}
	ready := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	going := func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	goingLater := func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(2, 0)} }
	ended := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }
	moved := func(pod *corev1.Pod) { pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.2"}} }
	annotated := func(pod *corev1.Pod) { pod.Annotations = map[string]string{"note": "x"} }
	for what, test := range map[string]struct {
		old, now *corev1.Pod
		want     string
	}{
		"what no address tells concerns nobody":         {running("app=web"), running("app=web", annotated), ""},
		"a pod becomes ready":                           {running("app=web"), running("app=web", ready), "web"},
		"a pod is to go":                                {running("app=web"), running("app=web", going), "web"},
		"a pod is to go sooner, which no address tells": {running("app=web", goingLater), running("app=web", going), ""},
		"a pod has ended":                               {running("app=web", ready), running("app=web", ready, ended), "web"},
		"a pod has another address":                     {running("app=web"), running("app=web", moved), "web"},
		"a pod leaves one Service and joins another, and stays in a third": {running("app=web,color=blue"), running("app=web,color=green"), "blue green"},
		"it becomes ready at the same time":                                {running("app=web,color=blue"), running("app=web,color=green", ready), "blue green web"},
		"a pod that nobody selects any more":                               {running("app=web"), running("app=none"), "web"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, names(services.affected(test.old, test.now)), "concerned are, of web (app=web), blue (color=blue) and green (color=green)")
		})
	}
}

func TestEveryServiceOfAPodHearsOfItAfterTheBatchPeriodAndOneOfVeryManyPortsLater(t *testing.T) {
	t.Parallel()
	services := given(t, map[string]string{"web": "app=web", "other": "app=other"})
	require.NoError(t, services.indexer.Add(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "many"},
		Spec:       corev1.ServiceSpec{Selector: set("app=web"), Ports: make([]corev1.ServicePort, 4*portsPerSecond+1)},
	}))
	heard := map[string]time.Duration{}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(labelled("app=web")), 0)
	synced := services.Watch(factory.Core().V1().Pods().Informer(), 300*time.Millisecond,
		func(service cache.ObjectName, after time.Duration) { heard[service.Name] = after })
	stop := make(chan struct{})
	factory.Start(stop)
	require.True(t, cache.WaitForCacheSync(stop, synced))
	close(stop)
	factory.Shutdown()
	assert.Equal(t, map[string]time.Duration{"web": 300 * time.Millisecond, "many": 4300 * time.Millisecond}, heard)
}
