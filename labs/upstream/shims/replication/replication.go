// Package replication stands for k8s.io/kubernetes/pkg/controller/replication.
package replication

import "github.com/kcm-book/kcm-book/kcm/controller/replication"

// BurstReplicas is upstream's bound of what one sync creates or deletes.
const BurstReplicas = 500

// ReplicationManager is kcm's.
type ReplicationManager = replication.Controller

// NewReplicationManager is kcm's constructor.
var NewReplicationManager = replication.NewReplicationManager
