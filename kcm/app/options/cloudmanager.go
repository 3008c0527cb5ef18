package options

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	cloudprovider "k8s.io/cloud-provider"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// NewCloudManagerOptions returns the options of a manager that has the loops of
// a cloud and no others, with every flag at its default.
func NewCloudManagerOptions() (*KubeControllerManagerOptions, error) {
	o, err := NewKubeControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	o.Name = config.CloudManagerName
	o.Generic.LeaderElection.ResourceName = config.CloudManagerName
	o.SecureServing.BindPort = cloudprovider.CloudControllerManagerPort
	o.SecureServing.ServerCert.PairName = config.CloudManagerName
	return o, nil
}

// keepFlagsOfCloud leaves what every manager has and what is about the cloud:
// nothing without effect.
func keepFlagsOfCloud(groups *cliflag.NamedFlagSets) {
	for name, fs := range groups.FlagSets {
		kept := pflag.NewFlagSet(name, pflag.ContinueOnError)
		fs.VisitAll(func(flag *pflag.Flag) {
			if !isWithoutEffect(flag) {
				kept.AddFlag(flag)
			}
		})
		if groups.FlagSets[name] = kept; !kept.HasFlags() {
			delete(groups.FlagSets, name)
		}
	}
	groups.Order = slices.DeleteFunc(groups.Order, func(name string) bool { return groups.FlagSets[name] == nil })
}

// validateOwnCloud has the manager of a cloud refuse to run without it.
func (o *KubeControllerManagerOptions) validateOwnCloud() []error {
	if name := o.ComponentConfig.KubeCloudShared.CloudProvider.Name; o.Name == config.CloudManagerName && (name == "" || cloudprovider.IsExternal(name)) {
		return []error{fmt.Errorf("--cloud-provider=%s: must name the cloud whose loops this program has", name)}
	}
	return nil
}
