// Package replicaset stands for k8s.io/kubernetes/pkg/controller/replicaset.
package replicaset

import "github.com/kcm-book/kcm-book/kcm/controller/replication"

// BurstReplicas is upstream's bound of what one sync creates or deletes.
const BurstReplicas = 500

// ReplicaSetController is kcm's.
type ReplicaSetController = replication.Controller

// NewReplicaSetController is kcm's constructor.
var NewReplicaSetController = replication.NewReplicaSetController
