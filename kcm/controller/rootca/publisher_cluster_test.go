package rootca_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/kcm-book/kcm-book/kcm/controller/rootca"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

func TestMain(m *testing.M) {
	clustertest.Main(m, clustertest.Loop{
		Name: "root-ca-certificate-publisher-controller",
		Start: func(_ context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory) (func(context.Context), error) {
			bundle, err := os.ReadFile(clustertest.Cluster().RootCAFile())
			if err != nil {
				return nil, err
			}
			core := informers.Core().V1()
			publisher := rootca.NewPublisher(core.ConfigMaps(), core.Namespaces(), client, bundle)
			return func(ctx context.Context) { publisher.Run(ctx, 1) }, nil
		},
	})
}

const (
	name        = "kube-root-ca.crt"
	description = "kubernetes.io/description"
)

// waitForBundle waits until a namespace has the ConfigMap as it should be.
func waitForBundle(t *testing.T, client kubernetes.Interface, namespace string, is func(*corev1.ConfigMap) bool) *corev1.ConfigMap {
	t.Helper()
	bundle, err := os.ReadFile(clustertest.Cluster().RootCAFile())
	require.NoError(t, err)
	var cm *corev1.ConfigMap
	clustertest.Eventually(t, "namespace "+namespace+" has the root CA bundle", func(ctx context.Context) (bool, string, error) {
		cm, err = client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, "no config map", nil
		}
		if err != nil {
			return false, "", err
		}
		right := len(cm.Data) == 1 && cm.Data["ca.crt"] == string(bundle) && cm.Annotations[description] != ""
		return right && is(cm), fmt.Sprintf("annotations %v, data %v", cm.Annotations, cm.Data), nil
	})
	return cm
}

func any(*corev1.ConfigMap) bool { return true }

func change(t *testing.T, client kubernetes.Interface, namespace string, change func(*corev1.ConfigMap)) *corev1.ConfigMap {
	t.Helper()
	var changed *corev1.ConfigMap
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cm, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(cm)
		changed, err = client.CoreV1().ConfigMaps(namespace).Update(t.Context(), cm, metav1.UpdateOptions{})
		return err
	}))
	return changed
}

func TestEveryNamespaceGetsTheRootCA(t *testing.T) {
	t.Parallel()
	client := clustertest.Client(t)
	for _, namespace := range []string{clustertest.BareNamespace(t), "default", "kube-system"} {
		cm := waitForBundle(t, client, namespace, any)
		assert.Equal(t, "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. "+
			"No other usage is guaranteed across distributions of Kubernetes clusters.", cm.Annotations[description])
	}
}

func TestADeletedConfigMapComesBack(t *testing.T) {
	t.Parallel()
	client := clustertest.Client(t)
	namespace := clustertest.BareNamespace(t)
	first := waitForBundle(t, client, namespace, any)
	require.NoError(t, client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
	waitForBundle(t, client, namespace, func(cm *corev1.ConfigMap) bool { return cm.UID != first.UID })
}

func TestAChangedConfigMapIsPutRight(t *testing.T) {
	t.Parallel()
	for what, tamper := range map[string]func(*corev1.ConfigMap){
		"the bundle":      func(cm *corev1.ConfigMap) { cm.Data["ca.crt"] = "another" },
		"more keys":       func(cm *corev1.ConfigMap) { cm.Data["extra"] = "extra" },
		"no data":         func(cm *corev1.ConfigMap) { cm.Data = nil },
		"no description":  func(cm *corev1.ConfigMap) { delete(cm.Annotations, description) },
		"nothing is left": func(cm *corev1.ConfigMap) { cm.Data, cm.Annotations = nil, nil },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			client := clustertest.Client(t)
			namespace := clustertest.BareNamespace(t)
			waitForBundle(t, client, namespace, any)
			changed := change(t, client, namespace, tamper)
			waitForBundle(t, client, namespace, func(cm *corev1.ConfigMap) bool { return cm.ResourceVersion != changed.ResourceVersion })
		})
	}
}

func TestAnotherDescriptionAndOtherAnnotationsAreKept(t *testing.T) {
	t.Parallel()
	client := clustertest.Client(t)
	namespace := clustertest.BareNamespace(t)
	waitForBundle(t, client, namespace, any)
	change(t, client, namespace, func(cm *corev1.ConfigMap) { cm.Annotations[description] = "mine" })
	// One worker takes namespaces in their order: when another's ConfigMap is
	// back, this one has been looked at.
	other := clustertest.BareNamespace(t)
	first := waitForBundle(t, client, other, any)
	require.NoError(t, client.CoreV1().ConfigMaps(other).Delete(t.Context(), name, metav1.DeleteOptions{}))
	waitForBundle(t, client, other, func(cm *corev1.ConfigMap) bool { return cm.UID != first.UID })

	cm, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "mine", cm.Annotations[description])

	change(t, client, namespace, func(cm *corev1.ConfigMap) {
		cm.Annotations = map[string]string{"mine": "mine"}
	})
	cm = waitForBundle(t, client, namespace, any)
	assert.Equal(t, "mine", cm.Annotations["mine"])
}
