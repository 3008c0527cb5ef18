package options

import (
	"fmt"
	"os"

	cloudprovider "k8s.io/cloud-provider"
	cpconfig "k8s.io/cloud-provider/config/v1alpha1"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// rangeAllocator is the way to give nodes their CIDRs that needs no cloud.
const rangeAllocator = "RangeAllocator"

// addCloudFlags adds what there is to say about the cloud. Most of it is for
// loops that kube-controller-manager has had until 1.30, and is accepted since.
func addCloudFlags(c *config.ComponentConfig, known Controllers, groups *cliflag.NamedFlagSets) {
	addRows([]row{
		{"cloud-provider", &c.KubeCloudShared.CloudProvider.Name,
			"The cloud whose loops this program runs, if it has any: empty, or external, says that another one does."},
		{"cloud-config", &c.KubeCloudShared.CloudProvider.CloudConfigFile, "File that the cloud reads its configuration from."},
		{"allow-untagged-cloud", &c.KubeCloudShared.AllowUntaggedCloud,
			"Whether a cloud is good enough that does not know which of its instances belong to this cluster."},
		{"node-monitor-period", &c.KubeCloudShared.NodeMonitorPeriod,
			"How often the loop for the nodes of a cloud asks about the machines of those that are not Ready. " +
				"No node is taken for lost sooner than that."},
		{"external-cloud-volume-plugin", &c.KubeCloudShared.ExternalCloudVolumePlugin,
			"The volumes of which cloud the loops for volumes see to. No loop of this program asks."},
		{"configure-cloud-routes", c.KubeCloudShared.ConfigureCloudRoutes,
			"Whether the cloud gets a route to the pods of each node. No loop of this program asks."},
		{"cidr-allocator-type", &c.KubeCloudShared.CIDRAllocatorType,
			"Who gives nodes their CIDRs: nobody but " + rangeAllocator + "."},
	}, known, groups)
	groups.FlagSet("generic").MarkDeprecated("allow-untagged-cloud", "a cloud has to know which of its instances belong to the cluster")
}

// validateCloud refuses a cloud that this program does not have, with the words
// of the library that all clouds have in common.
func validateCloud(cloud *cpconfig.KubeCloudSharedConfiguration) []error {
	var errs []error
	name, file := cloud.CloudProvider.Name, cloud.CloudProvider.CloudConfigFile
	if name != "" && !cloudprovider.IsExternal(name) {
		if !cloudprovider.IsCloudProvider(name) {
			errs = append(errs, fmt.Errorf("--cloud-provider=%s: %w", name, cloudprovider.ErrorForDisabledProvider(name)))
		} else if _, err := os.ReadFile(file); file != "" && err != nil {
			errs = append(errs, fmt.Errorf("--cloud-config: %w", err))
		}
		if period := cloud.NodeMonitorPeriod.Duration; period <= 0 {
			errs = append(errs, fmt.Errorf("--node-monitor-period=%s: must be above 0", period))
		}
	}
	if kind := cloud.CIDRAllocatorType; kind != "" && kind != rangeAllocator {
		errs = append(errs, fmt.Errorf("--cidr-allocator-type=%s: must be %s, the others were those of built-in cloud providers", kind, rangeAllocator))
	}
	return errs
}

// newCloud returns the cloud that the flags name, or nil where they name none
// whose loops this program has.
func newCloud(flags *cpconfig.KubeCloudSharedConfiguration) (cloudprovider.Interface, error) {
	name := flags.CloudProvider.Name
	cloud, err := cloudprovider.InitCloudProvider(name, flags.CloudProvider.CloudConfigFile)
	if err != nil {
		return nil, fmt.Errorf("--cloud-provider=%s: %w", name, err)
	}
	if cloud != nil && !cloud.HasClusterID() && !flags.AllowUntaggedCloud {
		return nil, fmt.Errorf("--cloud-provider=%s: the cloud does not know which of its instances belong to this cluster; tag them, or say --allow-untagged-cloud", name)
	}
	return cloud, nil
}
