package options

import (
	"fmt"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// setControllerDefaults sets the options of the controllers.
func setControllerDefaults(c *config.ComponentConfig) {
	c.ServiceAccount.ConcurrentSATokenSyncs = 5
	c.Replication.ConcurrentRCSyncs = 5
	c.ReplicaSet.ConcurrentRSSyncs = 5
	c.Deployment.ConcurrentDeploymentSyncs = 5
}

// addControllerFlags adds a group of flags for each controller that has any.
func addControllerFlags(c *config.ComponentConfig, groups *cliflag.NamedFlagSets) {
	addServiceAccountFlags(c, groups.FlagSet("serviceaccount-controller"))
	addConcurrency(groups.FlagSet("replicationcontroller-controller"),
		"concurrent-rc-syncs", "ReplicationControllers", &c.Replication.ConcurrentRCSyncs)
	addConcurrency(groups.FlagSet("replicaset-controller"),
		"concurrent-replicaset-syncs", "ReplicaSets", &c.ReplicaSet.ConcurrentRSSyncs)
	addConcurrency(groups.FlagSet("deployment-controller"),
		"concurrent-deployment-syncs", "Deployments", &c.Deployment.ConcurrentDeploymentSyncs)
}

// validateControllers checks the options of the controllers.
func validateControllers(c *config.ComponentConfig) []error {
	var errs []error
	errs = append(errs, validateServiceAccount(c)...)
	errs = append(errs, atLeastOne("concurrent-rc-syncs", c.Replication.ConcurrentRCSyncs)...)
	errs = append(errs, atLeastOne("concurrent-replicaset-syncs", c.ReplicaSet.ConcurrentRSSyncs)...)
	errs = append(errs, atLeastOne("concurrent-deployment-syncs", c.Deployment.ConcurrentDeploymentSyncs)...)
	return errs
}

func addConcurrency(fs *pflag.FlagSet, name, objects string, value *int32) {
	fs.Int32Var(value, name, *value, fmt.Sprintf("How many %s may be synced at the same time. "+
		"More react faster and cost more CPU and network.", objects))
}

func atLeastOne(flag string, value int32) []error {
	if value < 1 {
		return []error{fmt.Errorf("--%s=%d: must be at least 1, or nothing would ever be synced", flag, value)}
	}
	return nil
}
