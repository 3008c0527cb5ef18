package rootca

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"
	"pgregory.net/rapid"
)

func configMap(data, annotations map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "kube-root-ca.crt", ResourceVersion: "7",
			Labels: map[string]string{"team": "blue"}, Annotations: annotations,
		},
		Data: data,
	}
}

// inWords says what a plan is to do.
func (p plan) inWords() string {
	var steps []string
	if p.create != nil {
		steps = append(steps, "create "+contents(p.create))
	}
	if p.update != nil {
		steps = append(steps, "update "+contents(p.update))
	}
	if steps == nil {
		return "nothing is written"
	}
	return strings.Join(steps, "; ")
}

// contents says what a ConfigMap holds. The usual description is "ours".
func contents(cm *corev1.ConfigMap) string {
	annotations := maps.Clone(cm.Annotations)
	if annotations[DescriptionAnnotation] == Description {
		annotations[DescriptionAnnotation] = "ours"
	}
	return fmt.Sprintf("%s/%s with data {%s}, annotations {%s}, labels {%s} and version %q",
		cm.Namespace, cm.Name, pairs(cm.Data), pairs(annotations), pairs(cm.Labels), cm.ResourceVersion)
}

func pairs(texts map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		all = append(all, key+": "+texts[key])
	}
	return strings.Join(all, ", ")
}

func TestEveryNamespaceHasTheBundleAndNothingElse(t *testing.T) {
	t.Parallel()
	type text = map[string]string
	bundle, described := text{"ca.crt": "root CA"}, text{"kubernetes.io/description": Description}
	const mended = `update shop/kube-root-ca.crt with data {ca.crt: root CA}, annotations {kubernetes.io/description: ours}, labels {team: blue} and version "7"`
	for _, test := range []struct {
		name string
		seen *corev1.ConfigMap
		does string
	}{
		{
			name: "a namespace without the ConfigMap gets it",
			does: `create shop/kube-root-ca.crt with data {ca.crt: root CA}, annotations {kubernetes.io/description: ours}, labels {} and version ""`,
		},
		{name: "nothing is written to one that is as it should be", seen: configMap(bundle, described), does: "nothing is written"},
		{name: "another bundle is replaced", seen: configMap(text{"ca.crt": "old"}, described), does: mended},
		{name: "a bundle that was taken out is put back", seen: configMap(nil, described), does: mended},
		{name: "what somebody has added to the data is removed", seen: configMap(text{"ca.crt": "root CA", "extra": "e"}, described), does: mended},
		{name: "a description that is missing is written", seen: configMap(bundle, nil), does: mended},
		{name: "a description that is empty is written", seen: configMap(bundle, text{"kubernetes.io/description": ""}), does: mended},
		{name: "a description in other words may stay", seen: configMap(bundle, text{"kubernetes.io/description": "mine"}), does: "nothing is written"},
		{name: "a description in other words goes with wrong data", seen: configMap(nil, text{"kubernetes.io/description": "mine"}), does: mended},
		{
			name: "labels and other annotations are kept",
			seen: configMap(nil, text{"mine": "m"}),
			does: `update shop/kube-root-ca.crt with data {ca.crt: root CA}, annotations {kubernetes.io/description: ours, mine: m}, labels {team: blue} and version "7"`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			situation := "the namespace has no such ConfigMap"
			if test.seen != nil {
				situation = "the namespace has " + contents(test.seen)
			}
			assert.Equal(t, test.does, decide("shop", test.seen, []byte("root CA")).inWords(), situation)
		})
	}
	t.Run("the cache's own ConfigMap is not changed", func(t *testing.T) {
		t.Parallel()
		seen := configMap(text{"ca.crt": "old"}, text{"mine": "m"})
		before := contents(seen)
		decide("shop", seen, []byte("root CA"))
		assert.Equal(t, before, contents(seen), "the ConfigMap that the lister returned, afterwards")
	})
	t.Run("a ConfigMap that was written needs nothing more", func(t *testing.T) {
		t.Parallel()
		texts := rapid.MapOf(rapid.SampledFrom([]string{"ca.crt", DescriptionAnnotation, "x"}), rapid.SampledFrom([]string{"", "root CA", "y"}))
		rapid.Check(t, func(t *rapid.T) {
			todo := decide("shop", configMap(texts.Draw(t, "data"), texts.Draw(t, "annotations")), []byte("root CA"))
			if todo.update != nil {
				assert.Equal(t, "nothing is written", decide("shop", todo.update, []byte("root CA")).inWords(),
					"the second look, after an update to %s", contents(todo.update))
			}
		})
	})
}

func TestTheDescriptionIsThatOfEveryOtherCluster(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. "+
		"No other usage is guaranteed across distributions of Kubernetes clusters.", Description)
}

func TestARefusedCreationIsAnErrorUnlessTheNamespaceIsGoing(t *testing.T) {
	t.Parallel()
	configMaps := corev1.Resource("configmaps")
	terminating := apierrors.NewForbidden(configMaps, ConfigMapName, errors.New("namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	for name, test := range map[string]struct {
		refusal error
		fails   bool
	}{
		"the namespace is being deleted":  {refusal: terminating},
		"the namespace is gone":           {refusal: apierrors.NewNotFound(corev1.Resource("namespaces"), "shop")},
		"it is not allowed":               {refusal: apierrors.NewForbidden(configMaps, ConfigMapName, errors.New("no")), fails: true},
		"the cache missed the config map": {refusal: apierrors.NewAlreadyExists(configMaps, ConfigMapName), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset()
			client.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, test.refusal
			})
			err := (&Publisher{client: client}).act(t.Context(), plan{create: configMap(nil, nil)})
			assert.Len(t, client.Actions(), 1)
			if test.fails {
				require.ErrorIs(t, err, test.refusal)
				assert.ErrorContains(t, err, "create config map shop/kube-root-ca.crt")
			} else {
				assert.NoError(t, err)
			}
		})
	}
}

func TestNothingIsWrittenThatTheAPIServerWouldRefuse(t *testing.T) {
	t.Parallel()
	binary := configMap(nil, nil)
	binary.BinaryData = map[string][]byte{"ca.crt": {1}, "x": {2}}
	todo := decide("shop", binary, []byte("root CA"))
	assert.Equal(t, map[string][]byte{"x": {2}}, todo.update.BinaryData, "a key is in one of the two only")
	for data, writes := range map[string]int{"old": 0, "root CA": 1} {
		immutable := configMap(map[string]string{"ca.crt": data}, nil)
		immutable.Immutable = new(true)
		client := fake.NewClientset(immutable)
		known := informers.NewSharedInformerFactory(nil, 0).Core().V1().ConfigMaps()
		require.NoError(t, known.Informer().GetStore().Add(immutable))
		p := &Publisher{client: client, configMaps: known.Lister(), rootCA: func() []byte { return []byte("root CA") }}
		require.NoError(t, p.sync(t.Context(), cache.MetaObjectToName(immutable)))
		assert.Len(t, client.Actions(), writes, "the immutable config map has the bundle %q, and no description", data)
	}
}

func TestASyncIsCountedByTheStatusThatTheServerGave(t *testing.T) {
	registerMetrics()
	conflict := apierrors.NewConflict(corev1.Resource("configmaps"), ConfigMapName, errors.New("changed"))
	for name, test := range map[string]struct {
		err  error
		code string
	}{
		"success":                   {code: "200"},
		"a conflict":                {err: conflict, code: "409"},
		"a conflict in other words": {err: fmt.Errorf("update: %w", conflict), code: "409"},
		"no server's word":          {err: errors.New("dial: refused"), code: "500"},
		"a status without a code":   {err: &apierrors.StatusError{}, code: "500"},
	} {
		t.Run(name, func(t *testing.T) {
			count := func() float64 {
				n, err := testutil.GetCounterMetricValue(syncTotal.WithLabelValues(test.code))
				require.NoError(t, err)
				return n
			}
			before := count()
			sync := measured(func(context.Context, cache.ObjectName) error { return test.err })
			assert.Equal(t, test.err, sync(t.Context(), cache.ObjectName{}))
			assert.Equal(t, before+1, count())
		})
	}
}

func TestAnotherRootCAGoesToEveryNamespaceThatIsNotBeingDeleted(t *testing.T) {
	t.Parallel()
	namespace := func(name string, phase corev1.NamespacePhase) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: phase}}
	}
	client := fake.NewClientset(namespace("shop", corev1.NamespaceActive), namespace("web", corev1.NamespaceActive), namespace("old", corev1.NamespaceTerminating))
	factory := informers.NewSharedInformerFactory(client, 0)
	var current atomic.Value
	current.Store([]byte("first"))
	p := NewPublisher(factory.Core().V1().ConfigMaps(), factory.Core().V1().Namespaces(), client, func() []byte { return current.Load().([]byte) })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx, 1) })
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	})
	published := func(want string) func() bool {
		return func() bool {
			list, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
			require.NoError(t, err)
			var all []string
			for _, cm := range list.Items {
				all = append(all, cm.Namespace+": "+cm.Data["ca.crt"])
			}
			slices.Sort(all)
			return strings.Join(all, ", ") == want
		}
	}
	require.Eventually(t, published("shop: first, web: first"), time.Minute, time.Millisecond)
	current.Store([]byte("second"))
	p.Enqueue()
	require.Eventually(t, published("shop: second, web: second"), time.Minute, time.Millisecond)
}
