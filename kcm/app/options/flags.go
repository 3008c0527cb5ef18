package options

import (
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// Flags returns all flags in the groups in which --help shows them. What is
// parsed with them is what [KubeControllerManagerOptions.Config] goes by.
func (o *KubeControllerManagerOptions) Flags(known Controllers) cliflag.NamedFlagSets {
	groups := cliflag.NamedFlagSets{}
	o.Generic.AddFlags(&groups, known.Names, known.DisabledByDefault, known.Aliases)
	delete(groups.FlagSets, "leader-migration") // what upstream says of it is of another time
	o.addGenericFlags(groups.FlagSet("generic"))

	o.addLeaderMigrationFlags(groups.FlagSet("leader-migration"))
	o.SecureServing.AddFlags(groups.FlagSet("secure serving"))
	o.Authentication.AddFlags(groups.FlagSet("authentication"))
	o.Authorization.AddFlags(groups.FlagSet("authorization"))
	addRows(controllerRows(o.ComponentConfig), known, &groups)
	addCloudFlags(o.ComponentConfig, known, &groups)
	addRangeFlags(o.ComponentConfig, known, &groups)
	addRows(signingRows(o.ComponentConfig), known, &groups)
	o.Metrics.AddFlags(groups.FlagSet("metrics"))
	logsapi.AddFlags(o.Logs, groups.FlagSet("logs"))
	o.addConnectionFlags(groups.FlagSet("misc"))
	addFlagsWithoutEffect(&groups)
	if o.Name == config.CloudManagerName {
		keepFlagsOfCloud(&groups)
	}
	o.groups = groups
	return groups
}

func (o *KubeControllerManagerOptions) addGenericFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.ControllerShutdownTimeout, "controller-shutdown-timeout", o.ControllerShutdownTimeout,
		"How long the controllers may take to stop before the process ends without them. 0 waits as long as it takes.")
	fs.BoolVar(&o.CrashOnPanic, "crash-on-panic", o.CrashOnPanic,
		"End the process when a controller panics, as the original does. Otherwise the object whose sync has panicked is tried again, and the controllers go on. Not a flag of kube-controller-manager.")
	o.ComponentGlobalsRegistry.AddFlags(fs)
}

func (o *KubeControllerManagerOptions) addConnectionFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Master, "master", o.Master,
		"Address of the API server. Overrides the one in the kubeconfig.")
	kubeconfig := &o.Generic.ClientConnection.Kubeconfig
	fs.StringVar(kubeconfig, "kubeconfig", *kubeconfig,
		"File that says where the API server is and how to log in there. Without it, and without --master, the pod's own ServiceAccount is used.")
}
