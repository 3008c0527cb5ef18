package options

import (
	"fmt"
	"slices"
	"strings"

	cliflag "k8s.io/component-base/cli/flag"
	kcmconfig "k8s.io/kube-controller-manager/config/v1alpha1"

	"github.com/kcm-book/kcm-book/kcm/app/config"
	"github.com/kcm-book/kcm-book/kcm/controller/nodeipam"
)

// nodeIPAM is the loop that goes by what there is to say of ranges.
const nodeIPAM = "node-ipam-controller"

// addRangeFlags adds what there is to say about the ranges of addresses of nodes. The
// original has two of these flags in common with the manager of a cloud.
func addRangeFlags(c *config.ComponentConfig, known Controllers, groups *cliflag.NamedFlagSets) {
	if !slices.Contains(known.Names, nodeIPAM) {
		return
	}
	addRows([]row{
		{"allocate-node-cidrs", &c.KubeCloudShared.AllocateNodeCIDRs, "Give each node a range of addresses for its pods."},
		{"cluster-cidr", &c.KubeCloudShared.ClusterCIDR,
			"The range that those of the nodes are pieces of, or one of each family, separated by a comma."},
		{"service-cluster-ip-range", &c.NodeIPAMController.ServiceCIDR,
			"The range of addresses for Services, or one of each family, separated by a comma. No node gets any of them."},
		{"node-cidr-mask-size", &c.NodeIPAMController.NodeCIDRMaskSize,
			"How long the mask of a node's range is. 0 is 24 for IPv4 and 64 for IPv6."},
		{"node-cidr-mask-size-ipv4", &c.NodeIPAMController.NodeCIDRMaskSizeIPv4, "The same for IPv4 alone."},
		{"node-cidr-mask-size-ipv6", &c.NodeIPAMController.NodeCIDRMaskSizeIPv6, "The same for IPv6 alone."},
	}, known, groups)
}

// validateRanges returns what the loop would say when it begins, which may be long after
// this process has.
func (o *KubeControllerManagerOptions) validateRanges(known Controllers) []error {
	c := o.ComponentConfig
	if ranges := c.NodeIPAMController.ServiceCIDR; strings.Count(ranges, ",") > 1 {
		return []error{fmt.Errorf("--service-cluster-ip-range=%s: must not be more than two", ranges)}
	}
	if !c.KubeCloudShared.AllocateNodeCIDRs || !known.mayRun(nodeIPAM, o.Generic.Controllers) {
		return nil
	}
	if _, err := nodeipam.ParseRanges(c.KubeCloudShared.ClusterCIDR, c.NodeIPAMController); err != nil {
		return []error{err}
	}
	return nil
}

// mayRun tells whether there is a controller of that name, and --controllers, where it
// may have a former one, wants it.
func (c Controllers) mayRun(name string, given []string) bool {
	for _, item := range given {
		if bare, unwanted := strings.CutPrefix(item, "-"); c.canonicalName(bare) == name {
			return !unwanted && slices.Contains(c.Names, name)
		}
	}
	return slices.Contains(given, "*") && slices.Contains(c.Names, name) && !slices.Contains(c.DisabledByDefault, name)
}

// splitServiceRange has the configuration say what one flag says in two fields.
func splitServiceRange(c *kcmconfig.NodeIPAMControllerConfiguration) {
	c.ServiceCIDR, c.SecondaryServiceCIDR, _ = strings.Cut(c.ServiceCIDR, ",")
}
