package options

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// row is a flag that sets a value of the configuration, whose default is what is
// there already. Its group, type and bounds are those of original.yaml.
type row struct {
	flag  string
	value any // *bool, *float32, *int32, *string or *metav1.Duration
	usage string
}

// atOnce is what the flag for how many objects a controller syncs at once says.
func atOnce(objects string) string {
	return fmt.Sprintf("How many %s may be synced at the same time. More react faster and cost more CPU and network.", objects)
}

// controllerRows returns the flags of the controllers.
func controllerRows(c *config.ComponentConfig) []row {
	return []row{
		{"use-service-account-credentials", &c.KubeCloudShared.UseServiceAccountCredentials,
			"Give each controller a ServiceAccount and a token of its own."},
		{"service-account-private-key-file", &c.SAController.ServiceAccountKeyFile,
			"File with the private RSA or ECDSA key, PEM-encoded, that signs tokens in Secrets. Without it no such tokens are made."},
		{"root-ca-file", &c.SAController.RootCAFile, "File with the certificates, PEM-encoded, by which pods recognise the API server. " +
			"They are put into token Secrets and into the ConfigMap kube-root-ca.crt. Default: those of the kubeconfig."},
		{"concurrent-serviceaccount-token-syncs", &c.SAController.ConcurrentSATokenSyncs, atOnce("token Secrets")},
		{"concurrent-rc-syncs", &c.ReplicationController.ConcurrentRCSyncs, atOnce("ReplicationControllers")},
		{"concurrent-replicaset-syncs", &c.ReplicaSetController.ConcurrentRSSyncs, atOnce("ReplicaSets")},
		{"concurrent-deployment-syncs", &c.DeploymentController.ConcurrentDeploymentSyncs, atOnce("Deployments")},
		{"concurrent-endpoint-syncs", &c.EndpointController.ConcurrentEndpointSyncs, atOnce("Services")},
		{"endpoint-updates-batch-period", &c.EndpointController.EndpointUpdatesBatchPeriod, "How long to wait after a change of a pod " +
			"until Endpoints are written, and with it what changes until then. Longer means fewer writes, and later news."},
		{"concurrent-service-endpoint-syncs", &c.EndpointSliceController.ConcurrentServiceEndpointSyncs, atOnce("Services")},
		{"endpointslice-updates-batch-period", &c.EndpointSliceController.EndpointUpdatesBatchPeriod, "How long to wait after a change " +
			"of a pod until EndpointSlices are written, and with it what changes until then. Longer means fewer writes, and later news."},
		{"max-endpoints-per-slice", &c.EndpointSliceController.MaxEndpointsPerSlice,
			"How many endpoints an EndpointSlice has at most, 1 to 1000. More means fewer and larger objects."},
		{"mirroring-concurrent-service-endpoint-syncs", &c.EndpointSliceMirroringController.MirroringConcurrentServiceEndpointSyncs,
			atOnce("Endpoints")},
		{"mirroring-endpointslice-updates-batch-period", &c.EndpointSliceMirroringController.MirroringEndpointUpdatesBatchPeriod,
			"How long to wait until an EndpointSlice is repaired that somebody else has changed."},
		{"mirroring-max-endpoints-per-subset", &c.EndpointSliceMirroringController.MirroringMaxEndpointsPerSubset,
			"How many addresses of those with the same ports are mirrored at most, 1 to 1000."},
		{"concurrent-namespace-syncs", &c.NamespaceController.ConcurrentNamespaceSyncs, atOnce("namespaces that are being deleted")},
		{"namespace-sync-period", &c.NamespaceController.NamespaceSyncPeriod,
			"How long a namespace is left alone that is empty and not gone, because of a finalizer of somebody else. Zero is for ever."},
		{"concurrent-gc-syncs", &c.GarbageCollectorController.ConcurrentGCSyncs, atOnce("objects without owners")},
		{"enable-garbage-collector", c.GarbageCollectorController.EnableGarbageCollector,
			"Whether objects are deleted when their owners are gone. The API server has a flag of this name, and both have to say the same."},
		{"terminated-pod-gc-threshold", &c.PodGCController.TerminatedPodGCThreshold,
			"How many pods that have ended are kept. With zero or less, all are."},
		{"concurrent-resource-quota-syncs", &c.ResourceQuotaController.ConcurrentResourceQuotaSyncs, atOnce("resource quotas")},
		{"resource-quota-sync-period", &c.ResourceQuotaController.ResourceQuotaSyncPeriod,
			"How often the status of all resource quotas is compared with what there is, whatever has happened."},
		{"concurrent-daemonset-syncs", &c.DaemonSetController.ConcurrentDaemonSetSyncs, atOnce("DaemonSets")},
		{"concurrent-ttl-after-finished-syncs", &c.TTLAfterFinishedController.ConcurrentTTLSyncs, atOnce("Jobs whose time has come")},
		{"concurrent-job-syncs", &c.JobController.ConcurrentJobSyncs, atOnce("Jobs")},
		{"concurrent-cron-job-syncs", &c.CronJobController.ConcurrentCronJobSyncs, atOnce("CronJobs")},
		{"node-monitor-grace-period", &c.NodeLifecycleController.NodeMonitorGracePeriod,
			"How long nothing may be heard of a node until it is taken for lost. A kubelet is heard every 10 seconds."},
		{"node-startup-grace-period", &c.NodeLifecycleController.NodeStartupGracePeriod,
			"How long a new node has for its kubelet to say how it is."},
		{"node-eviction-rate", &c.NodeLifecycleController.NodeEvictionRate,
			"Of how many lost nodes of a zone the pods are evicted in a second."},
		{"secondary-node-eviction-rate", &c.NodeLifecycleController.SecondaryNodeEvictionRate,
			"The same for a large zone of which --unhealthy-zone-threshold is not ready. Of a small one none are evicted then."},
		{"large-cluster-size-threshold", &c.NodeLifecycleController.LargeClusterSizeThreshold,
			"A zone with more nodes than this is large."},
		{"unhealthy-zone-threshold", &c.NodeLifecycleController.UnhealthyZoneThreshold,
			"Which share of a zone's nodes, three or more, has to be not ready until fewer are evicted: it is likelier " +
				"then that something between them and this program is broken."},
		{"legacy-service-account-token-clean-up-period", &c.LegacySATokenCleaner.CleanUpPeriod, "For how long a token in a Secret that " +
			"was made for a ServiceAccount may be unused until it is refused, and then until it is deleted."},
	}
}

// addRows adds flags to their groups. Those of a controller, whose group has its name,
// are left out where the program does not have it.
func addRows(rows []row, known Controllers, groups *cliflag.NamedFlagSets) {
	for _, r := range rows {
		group := ReadOriginal().groupOf(r.flag)
		if strings.HasSuffix(group, "-controller") && !slices.Contains(known.Names, group) {
			continue
		}
		fs := groups.FlagSet(group)
		switch value := r.value.(type) {
		case *bool:
			fs.BoolVar(value, r.flag, *value, r.usage)
		case *float32:
			fs.Float32Var(value, r.flag, *value, r.usage)
		case *int32:
			fs.Int32Var(value, r.flag, *value, r.usage)
		case *string:
			fs.StringVar(value, r.flag, *value, r.usage)
		case *metav1.Duration:
			fs.DurationVar(&value.Duration, r.flag, value.Duration, r.usage)
		default:
			panic(fmt.Sprintf("--%s sets a %T, and no flag does that", r.flag, value)) // a mistake in this program
		}
	}
}
