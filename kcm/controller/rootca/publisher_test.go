package rootca

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"
	"pgregory.net/rapid"
)

func configMap(data, annotations map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "kube-root-ca.crt", ResourceVersion: "7", Annotations: annotations},
		Data:       data,
	}
}

func TestTheConfigMapIsBroughtBackToTheBundle(t *testing.T) {
	t.Parallel()
	type text = map[string]string
	described := text{"kubernetes.io/description": Description}
	bundle := text{"ca.crt": "root CA"}
	for name, test := range map[string]struct {
		seen, becomes *corev1.ConfigMap // becomes nil: no update
	}{
		"it is as it should be":                 {seen: configMap(bundle, described)},
		"its bundle is another":                 {seen: configMap(text{"ca.crt": "old"}, described), becomes: configMap(bundle, described)},
		"it is empty":                           {seen: configMap(nil, nil), becomes: configMap(bundle, described)},
		"it holds more":                         {seen: configMap(text{"ca.crt": "root CA", "extra": "e"}, described), becomes: configMap(bundle, described)},
		"it is not described":                   {seen: configMap(bundle, nil), becomes: configMap(bundle, described)},
		"its description is empty":              {seen: configMap(bundle, text{"kubernetes.io/description": ""}), becomes: configMap(bundle, described)},
		"another description may do":            {seen: configMap(bundle, text{"kubernetes.io/description": "mine"})},
		"other annotations are kept":            {seen: configMap(nil, text{"mine": "m"}), becomes: configMap(bundle, text{"mine": "m", "kubernetes.io/description": Description})},
		"a description goes with an old bundle": {seen: configMap(nil, text{"kubernetes.io/description": "mine"}), becomes: configMap(bundle, described)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := test.seen.DeepCopy()
			assert.Equal(t, plan{update: test.becomes}, decide("ns", test.seen, []byte("root CA")))
			assert.Equal(t, before, test.seen, "the cached config map is not changed")
		})
	}
}

func TestANamespaceWithoutTheConfigMapGetsIt(t *testing.T) {
	t.Parallel()
	todo := decide("ns", nil, []byte("root CA"))
	assert.Nil(t, todo.update)
	assert.Equal(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "kube-root-ca.crt",
			Annotations: map[string]string{"kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
				"No other usage is guaranteed across distributions of Kubernetes clusters."},
		},
		Data: map[string]string{"ca.crt": "root CA"},
	}, todo.create)
}

func TestAConfigMapThatWasWrittenNeedsNothingMore(t *testing.T) {
	t.Parallel()
	text := rapid.MapOf(rapid.SampledFrom([]string{"ca.crt", DescriptionAnnotation, "x"}), rapid.SampledFrom([]string{"", "root CA", "y"}))
	rapid.Check(t, func(t *rapid.T) {
		var seen *corev1.ConfigMap
		if rapid.Bool().Draw(t, "exists") {
			seen = configMap(text.Draw(t, "data"), text.Draw(t, "annotations"))
		}
		todo := decide("ns", seen, []byte("root CA"))
		written := todo.create
		if written == nil {
			written = todo.update
		}
		if written != nil {
			assert.Equal(t, plan{}, decide("ns", written, []byte("root CA")))
		}
	})
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
		"the namespace is gone":           {refusal: apierrors.NewNotFound(corev1.Resource("namespaces"), "ns")},
		"it is not allowed":               {refusal: apierrors.NewForbidden(configMaps, ConfigMapName, errors.New("no")), fails: true},
		"the cache missed the config map": {refusal: apierrors.NewAlreadyExists(configMaps, ConfigMapName), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset()
			client.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, test.refusal
			})
			err := (&Publisher{client: client}).act(t.Context(), decide("ns", nil, []byte("root CA")))
			assert.Len(t, client.Actions(), 1)
			if test.fails {
				require.ErrorIs(t, err, test.refusal)
				assert.ErrorContains(t, err, "create config map ns/kube-root-ca.crt")
			} else {
				assert.NoError(t, err)
			}
		})
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
