package options

import (
	"fmt"

	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// workers is the flag for how many objects a controller syncs at the same time.
type workers struct {
	flag     string
	standard int32
	objects  string
	value    *int32
}

// controllerWorkers returns that flag of each controller that has it.
func controllerWorkers(c *config.ComponentConfig) []workers {
	return []workers{
		{"concurrent-serviceaccount-token-syncs", 5, "token Secrets", &c.ServiceAccount.ConcurrentSATokenSyncs},
		{"concurrent-rc-syncs", 5, "ReplicationControllers", &c.Replication.ConcurrentRCSyncs},
		{"concurrent-replicaset-syncs", 5, "ReplicaSets", &c.ReplicaSet.ConcurrentRSSyncs},
		{"concurrent-deployment-syncs", 5, "Deployments", &c.Deployment.ConcurrentDeploymentSyncs},
		{"concurrent-endpoint-syncs", 5, "Services", &c.Endpoint.ConcurrentEndpointSyncs},
		{"concurrent-service-endpoint-syncs", 5, "Services", &c.EndpointSlice.ConcurrentServiceEndpointSyncs},
		{"mirroring-concurrent-service-endpoint-syncs", 5, "Endpoints", &c.EndpointSliceMirroring.MirroringConcurrentServiceEndpointSyncs},
		{"concurrent-namespace-syncs", 10, "namespaces that are being deleted", &c.Namespace.ConcurrentNamespaceSyncs},
		{"concurrent-gc-syncs", 20, "objects without owners", &c.GarbageCollector.ConcurrentGCSyncs},
		{"concurrent-resource-quota-syncs", 5, "resource quotas", &c.ResourceQuota.ConcurrentResourceQuotaSyncs},
		{"concurrent-daemonset-syncs", 2, "DaemonSets", &c.DaemonSet.ConcurrentDaemonSetSyncs},
		{"concurrent-ttl-after-finished-syncs", 5, "Jobs whose time has come", &c.TTLAfterFinished.ConcurrentTTLSyncs},
		{"concurrent-job-syncs", 5, "Jobs", &c.Job.ConcurrentJobSyncs},
		{"concurrent-cron-job-syncs", 5, "CronJobs", &c.CronJob.ConcurrentCronJobSyncs},
	}
}

// addControllerFlags adds the flags of the controllers to their groups.
func addControllerFlags(c *config.ComponentConfig, groups *cliflag.NamedFlagSets) {
	for _, w := range controllerWorkers(c) {
		groups.FlagSet(ReadOriginal().groupOf(w.flag)).Int32Var(w.value, w.flag, w.standard,
			fmt.Sprintf("How many %s may be synced at the same time. More react faster and cost more CPU and network.", w.objects))
	}
	addCloudFlags(c, groups.FlagSet("generic"))
	addServiceAccountFlags(c, groups.FlagSet("serviceaccount-controller"))
	addNamespaceFlags(c, groups.FlagSet("namespace-controller"))
	addGarbageCollectorFlags(c, groups.FlagSet("garbage-collector-controller"))
	addEndpointFlags(c, groups)
	addPodGCFlags(c, groups.FlagSet("pod-garbage-collector-controller"))
	addResourceQuotaFlags(c, groups.FlagSet("resourcequota-controller"))
}

// validateControllers checks the options of the controllers.
func validateControllers(c *config.ComponentConfig) []error {
	errs := validateServiceAccount(c)
	errs = append(errs, validateCloud(&c.Cloud)...)
	errs = append(errs, validateEndpoints(c)...)
	for _, w := range controllerWorkers(c) {
		if *w.value < 1 {
			errs = append(errs, fmt.Errorf("--%s=%d: must be at least 1, or nothing would ever be synced", w.flag, *w.value))
		}
	}
	return errs
}
