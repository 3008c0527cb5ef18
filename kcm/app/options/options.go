// Package options turns the manager's command line into its configuration.
package options

import (
	"time"

	apiserveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/metrics"
	cmoptions "k8s.io/controller-manager/options"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// defaultPort serves HTTPS where the original does, so that what scrapes and
// probes one finds the other.
const defaultPort = 10257

// KubeControllerManagerOptions is what can be said on the command line. Names
// and defaults of the flags are those of kube-controller-manager.
type KubeControllerManagerOptions struct {
	// Name is what the manager calls itself towards the API server.
	Name string
	// ComponentConfig is written by the flags directly.
	ComponentConfig *config.ComponentConfig
	Generic         *cmoptions.GenericControllerManagerConfigurationOptions

	SecureServing  *apiserveroptions.SecureServingOptions
	Authentication *apiserveroptions.DelegatingAuthenticationOptions
	Authorization  *apiserveroptions.DelegatingAuthorizationOptions
	Metrics        *metrics.Options
	Logs           *logs.Options

	Master                    string
	ControllerShutdownTimeout time.Duration
	CrashOnPanic              bool

	// ComponentGlobalsRegistry holds feature gates and the emulated version.
	ComponentGlobalsRegistry basecompatibility.ComponentGlobalsRegistry

	// groups are the flags that were parsed, for /flagz.
	groups cliflag.NamedFlagSets
}

// NewKubeControllerManagerOptions returns options with every flag at its
// default.
func NewKubeControllerManagerOptions() (*KubeControllerManagerOptions, error) {
	componentConfig, err := config.NewComponentConfig()
	if err != nil {
		return nil, err
	}
	registry := compatibility.DefaultComponentGlobalsRegistry
	if registry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent) == nil {
		err := registry.Register(basecompatibility.DefaultKubeComponent,
			compatibility.DefaultBuildEffectiveVersion(), feature.DefaultMutableFeatureGate)
		if err != nil {
			return nil, err
		}
	}
	o := &KubeControllerManagerOptions{
		Name:                      config.ManagerName,
		ComponentConfig:           componentConfig,
		Generic:                   cmoptions.NewGenericControllerManagerConfigurationOptions(&componentConfig.Generic),
		SecureServing:             apiserveroptions.NewSecureServingOptions(),
		Authentication:            apiserveroptions.NewDelegatingAuthenticationOptions(),
		Authorization:             apiserveroptions.NewDelegatingAuthorizationOptions(),
		Metrics:                   metrics.NewOptions(),
		Logs:                      logs.NewOptions(),
		ControllerShutdownTimeout: 10 * time.Second,
		ComponentGlobalsRegistry:  registry,
	}
	o.SecureServing.BindPort = defaultPort
	// Without a directory the serving certificate is made in memory.
	o.SecureServing.ServerCert.CertDirectory = ""
	o.SecureServing.ServerCert.PairName = "kube-controller-manager"
	o.Authentication.RemoteKubeConfigFileOptional = true
	o.Authorization.RemoteKubeConfigFileOptional = true
	return o, nil
}
