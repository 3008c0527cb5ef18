package legacytokencleaner

//lint:file-ignore SA1019 Some volumes are deprecated, and pods have them.

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// Reads is what the loop reads of pods: the names of Secrets. They are kept where they take the least
// room. Of Secrets it reads the metadata and the type.
var Reads = []*controller.Keep{controller.KeepOf(func(kept, whole *corev1.Pod) {
	kept.Spec.ImagePullSecrets = nil
	for _, name := range secretsOf(whole) {
		kept.Spec.ImagePullSecrets = append(kept.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
})}

// mounts returns a function that tells whether a pod names a Secret. It adds an index to the informer of
// pods, by which no other pod is looked at.
func mounts(pods cache.SharedIndexInformer) func(*corev1.Secret) bool {
	const bySecret = "secret"
	controller.AddIndex(pods, bySecret, func(obj any) ([]string, error) {
		pod := obj.(*corev1.Pod)
		var keys []string
		for _, name := range secretsOf(pod) {
			keys = append(keys, cache.NewObjectName(pod.Namespace, name).String())
		}
		return keys, nil
	})
	return func(secret *corev1.Secret) bool {
		there, _ := pods.GetIndexer().ByIndex(bySecret, cache.MetaObjectToName(secret).String()) // an error says that there is no such index
		return len(there) > 0
	}
}

// secretsOf returns the names of the Secrets that a pod names itself, sorted. What a claim or a volume
// names that the pod names is not among them.
func secretsOf(pod *corev1.Pod) []string {
	names := sets.New[string]()
	for _, ref := range pod.Spec.ImagePullSecrets {
		names.Insert(ref.Name)
	}
	for i := range pod.Spec.InitContainers {
		names.Insert(secretsInEnv(pod.Spec.InitContainers[i].EnvFrom, pod.Spec.InitContainers[i].Env)...)
	}
	for i := range pod.Spec.Containers {
		names.Insert(secretsInEnv(pod.Spec.Containers[i].EnvFrom, pod.Spec.Containers[i].Env)...)
	}
	for i := range pod.Spec.EphemeralContainers {
		names.Insert(secretsInEnv(pod.Spec.EphemeralContainers[i].EnvFrom, pod.Spec.EphemeralContainers[i].Env)...)
	}
	for i := range pod.Spec.Volumes {
		names.Insert(secretsInVolume(&pod.Spec.Volumes[i].VolumeSource)...)
	}
	names.Delete("")
	return sets.List(names)
}

func secretsInEnv(from []corev1.EnvFromSource, env []corev1.EnvVar) (names []string) {
	for _, source := range from {
		if source.SecretRef != nil {
			names = append(names, source.SecretRef.Name)
		}
	}
	for _, variable := range env {
		if variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
			names = append(names, variable.ValueFrom.SecretKeyRef.Name)
		}
	}
	return names
}

func secretsInVolume(volume *corev1.VolumeSource) (names []string) {
	var ref *corev1.LocalObjectReference
	switch {
	case volume.Secret != nil:
		return []string{volume.Secret.SecretName}
	case volume.AzureFile != nil:
		return []string{volume.AzureFile.SecretName}
	case volume.Projected != nil:
		for _, source := range volume.Projected.Sources {
			if source.Secret != nil {
				names = append(names, source.Secret.Name)
			}
		}
		return names
	case volume.CSI != nil:
		ref = volume.CSI.NodePublishSecretRef
	case volume.CephFS != nil:
		ref = volume.CephFS.SecretRef
	case volume.Cinder != nil:
		ref = volume.Cinder.SecretRef
	case volume.FlexVolume != nil:
		ref = volume.FlexVolume.SecretRef
	case volume.ISCSI != nil:
		ref = volume.ISCSI.SecretRef
	case volume.RBD != nil:
		ref = volume.RBD.SecretRef
	case volume.ScaleIO != nil:
		ref = volume.ScaleIO.SecretRef
	case volume.StorageOS != nil:
		ref = volume.StorageOS.SecretRef
	}
	if ref != nil {
		names = append(names, ref.Name)
	}
	return names
}
