package legacytokencleaner

//lint:file-ignore SA1019 Some volumes are deprecated, and pods have them.

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func TestAllWaysInWhichAPodNamesASecretCount(t *testing.T) {
	t.Parallel()
	ref := &corev1.LocalObjectReference{Name: "mine"}
	env := []corev1.EnvVar{{Name: "A"}, {ValueFrom: &corev1.EnvVarSource{}}, {ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: *ref}}}}
	from := []corev1.EnvFromSource{{}, {SecretRef: &corev1.SecretEnvSource{LocalObjectReference: *ref}}}
	spec := func(volume corev1.VolumeSource) corev1.PodSpec {
		return corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: volume}}}
	}
	for way, spec := range map[string]corev1.PodSpec{
		"to pull an image":                {ImagePullSecrets: []corev1.LocalObjectReference{*ref}},
		"a variable":                      {Containers: []corev1.Container{{Env: env}}},
		"all variables":                   {Containers: []corev1.Container{{EnvFrom: from}}},
		"a variable of an init container": {InitContainers: []corev1.Container{{Env: env}}},
		"a variable of one for debugging": {EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{EnvFrom: from}}}},
		"a volume":                        spec(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mine"}}),
		"a part of a volume": spec(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{}, {Secret: &corev1.SecretProjection{LocalObjectReference: *ref}}},
		}}),
		"a volume of CSI":       spec(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: ref}}),
		"a volume of Azure":     spec(corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "mine"}}),
		"a volume of CephFS":    spec(corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{SecretRef: ref}}),
		"a volume of Cinder":    spec(corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{SecretRef: ref}}),
		"a flexible volume":     spec(corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{SecretRef: ref}}),
		"a volume of iSCSI":     spec(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: ref}}),
		"a volume of RBD":       spec(corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{SecretRef: ref}}),
		"a volume of ScaleIO":   spec(corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: ref}}),
		"a volume of StorageOS": spec(corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: ref}}),
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}, Spec: spec}
		assert.Equal(t, []string{"mine"}, secretsOf(pod), way)
		for range 2 { // an object may come a second time
			_, err := controller.Trim(Reads...)(pod)
			require.NoError(t, err)
			assert.Equal(t, []string{"mine"}, secretsOf(pod), "%s, of which the cache keeps the name", way)
		}
	}
}

func TestNamesThatAreNotThereDoNotCount(t *testing.T) {
	t.Parallel()
	for what, spec := range map[string]corev1.PodSpec{
		"nothing":                     {},
		"an empty name":               {ImagePullSecrets: []corev1.LocalObjectReference{{}}},
		"a volume that has no Secret": {Volumes: []corev1.Volume{{}, {VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}}, {VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}},
	} {
		assert.Empty(t, secretsOf(&corev1.Pod{Spec: spec}), what)
	}
}

func TestASecretIsMountedByPodsOfItsNamespace(t *testing.T) {
	t.Parallel()
	informer := informers.NewSharedInformerFactory(nil, 0).Core().V1().Pods().Informer()
	isMounted := mounts(informer)
	elsewhere := mounting("db-token")
	elsewhere.Namespace = "team"
	require.NoError(t, informer.GetStore().Add(mounting("builder-token")))
	require.NoError(t, informer.GetStore().Add(elsewhere))
	var found []string
	for _, name := range []string{"builder-token", "builder", "db-token", "web-0"} {
		if isMounted(secret(named(name))) {
			found = append(found, name)
		}
	}
	assert.Equal(t, "builder-token", strings.Join(found, " "))
}
