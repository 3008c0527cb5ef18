// Command upstream-manager is the manager of the lab's cloud as the makers of
// real clouds build theirs: with the command of k8s.io/cloud-provider. Of that
// library's loops it has the one for nodes that follow their machines.
package main

import (
	"log"
	"os"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"

	_ "github.com/kcm-book/kcm-book/labs/11-leader-migration/cloud" // --cloud-provider=lab
)

func main() {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		log.Fatal(err)
	}
	loops := map[string]app.ControllerInitFuncConstructor{
		names.CloudNodeLifecycleController: app.DefaultInitFuncConstructors[names.CloudNodeLifecycleController],
	}
	os.Exit(cli.Run(app.NewCloudControllerManagerCommand(
		opts, open, loops, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop)))
}

// open returns the cloud that the flags name.
func open(c *config.CompletedConfig) cloudprovider.Interface {
	flags := c.ComponentConfig.KubeCloudShared.CloudProvider
	cloud, err := cloudprovider.InitCloudProvider(flags.Name, flags.CloudConfigFile)
	if err != nil || cloud == nil {
		log.Fatalf("--cloud-provider=%s: %v", flags.Name, err)
	}
	return cloud
}
