package controller

import (
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// Feature gates of Kubernetes that change what the loops do. Their defaults
// and the versions since when are Kubernetes'.
const (
	// DeploymentReplicaSetTerminatingReplicas has ReplicaSets and Deployments
	// count the pods that are being deleted (https://kep.k8s.io/3973).
	DeploymentReplicaSetTerminatingReplicas featuregate.Feature = "DeploymentReplicaSetTerminatingReplicas"
	// PodDeletionCost lets users say which pods of a ReplicaSet are to go
	// first (https://kep.k8s.io/2255).
	PodDeletionCost featuregate.Feature = "PodDeletionCost"
	// StaleControllerConsistencyReplicaSet keeps a ReplicaSet from being
	// synced before its own last write is in the cache
	// (https://kep.k8s.io/5647).
	StaleControllerConsistencyReplicaSet featuregate.Feature = "StaleControllerConsistencyReplicaSet"
)

func init() {
	since := version.MustParse
	runtime.Must(feature.DefaultMutableFeatureGate.AddVersioned(map[featuregate.Feature]featuregate.VersionedSpecs{
		DeploymentReplicaSetTerminatingReplicas: {
			{Version: since("1.33"), Default: false, PreRelease: featuregate.Alpha},
			{Version: since("1.35"), Default: true, PreRelease: featuregate.Beta},
		},
		PodDeletionCost: {
			{Version: since("1.21"), Default: false, PreRelease: featuregate.Alpha},
			{Version: since("1.22"), Default: true, PreRelease: featuregate.Beta},
		},
		StaleControllerConsistencyReplicaSet: {
			{Version: since("1.36"), Default: true, PreRelease: featuregate.Beta},
		},
	}))
}
