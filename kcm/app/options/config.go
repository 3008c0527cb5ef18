package options

import (
	"fmt"
	"net"

	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	basecompatibility "k8s.io/component-base/compatibility"
	metricsfeatures "k8s.io/component-base/metrics/features"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// Config turns options that are valid into a configuration. It opens the port,
// and does not yet talk to the API server.
func (o *KubeControllerManagerOptions) Config(known Controllers) (*config.Config, error) {
	kubeconfig, err := o.kubeconfig()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(kubeconfig, o.Name))
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	c := &config.Config{
		Name:                      o.Name,
		ComponentConfig:           *o.ComponentConfig,
		Kubeconfig:                kubeconfig,
		Client:                    client,
		Authentication:            o.Authentication,
		Authorization:             o.Authorization,
		Flags:                     flagz.NamedFlagSetsReader{FlagSets: o.groups},
		Version:                   o.ComponentGlobalsRegistry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent),
		ControllerShutdownTimeout: o.ControllerShutdownTimeout,
		CrashOnPanic:              o.CrashOnPanic,
		InformerName:              o.Name,
	}
	if err := o.Generic.ApplyTo(&c.ComponentConfig.Generic, known.Names, known.DisabledByDefault, known.Aliases); err != nil {
		return nil, err
	}
	splitServiceRange(&c.ComponentConfig.NodeIPAMController)
	known.canonical(c.ComponentConfig.Generic.LeaderMigration.ControllerLeaders)
	if c.Cloud, err = newCloud(&c.ComponentConfig.KubeCloudShared); err != nil {
		return nil, err
	}
	if err := o.listen(c); err != nil {
		return nil, err
	}
	o.addMetrics()
	return c, nil
}

// addMetrics shows in /metrics which feature gates are on and which version is
// emulated, and leaves out what the flags say.
func (o *KubeControllerManagerOptions) addMetrics() {
	metricsfeatures.ApplyFeatureGates(feature.DefaultMutableFeatureGate)
	o.Metrics.Apply()
	feature.DefaultMutableFeatureGate.AddMetrics()
	o.ComponentGlobalsRegistry.AddMetrics()
}

// kubeconfig returns where the API server is and how to log in there, tuned: as
// --kubeconfig and --master say or, without either, as the pod has it that kcm
// runs in. An error names --kubeconfig.
func (o *KubeControllerManagerOptions) kubeconfig() (*rest.Config, error) {
	connection := &o.Generic.ClientConnection
	if o.Master == "" && connection.Kubeconfig == "" {
		kubeconfig, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig is needed outside of a pod: %w", err)
		}
		return o.tune(kubeconfig), nil
	}
	kubeconfig, err := clientcmd.BuildConfigFromFlags(o.Master, connection.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig=%s: %w", connection.Kubeconfig, err)
	}
	return o.tune(kubeconfig), nil
}

// tune has requests sent in the form and at the pace that the flags ask for.
func (o *KubeControllerManagerOptions) tune(kubeconfig *rest.Config) *rest.Config {
	connection := &o.Generic.ClientConnection
	// Manager and API server are near each other: compressing costs more
	// than it saves.
	kubeconfig.DisableCompression = true
	kubeconfig.AcceptContentTypes = connection.AcceptContentTypes
	kubeconfig.ContentType = connection.ContentType
	kubeconfig.QPS = connection.QPS
	kubeconfig.Burst = int(connection.Burst)
	return kubeconfig
}

// listen opens the port and prepares the certificate: the one that was given, or
// one that is made in memory. With --secure-port=0 there is neither. A port that
// cannot be had is reported by its flag.
func (o *KubeControllerManagerOptions) listen(c *config.Config) error {
	loopback := []net.IP{net.IPv4(127, 0, 0, 1)}
	if err := o.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, loopback); err != nil {
		return fmt.Errorf("make a serving certificate: %w", err)
	}
	port := o.SecureServing.BindPort // ApplyTo replaces it with what it got
	if err := o.SecureServing.ApplyTo(&c.SecureServing); err != nil {
		return fmt.Errorf("--secure-port=%d, --bind-address=%s: %w", port, o.SecureServing.BindAddress, err)
	}
	return nil
}
