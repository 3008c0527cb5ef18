// Package config holds what the manager runs with: everything that its flags
// say, checked and turned into clients, listeners and values.
package config

import (
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/flagz"
	apiserveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	basecompatibility "k8s.io/component-base/compatibility"
	cmconfig "k8s.io/controller-manager/config"
	kcmconfig "k8s.io/kube-controller-manager/config/v1alpha1"
)

// ManagerName is what the manager calls itself towards the API server. It is
// the original's name, so that rules and dashboards that look for it find kcm.
const ManagerName = "kube-controller-manager"

// CloudManagerName is what the manager of a cloud calls itself.
const CloudManagerName = "cloud-controller-manager"

// ComponentConfig is the part of the configuration that is plain data: that of
// kube-controller-manager's configuration API.
type ComponentConfig struct {
	// Generic is what all controller managers have in common, in the form in which
	// their library reads it. It counts in place of the embedded one.
	Generic cmconfig.GenericControllerManagerConfiguration
	kcmconfig.KubeControllerManagerConfiguration
}

// Config is what the manager runs with.
type Config struct {
	// Name is what the manager calls itself towards the API server.
	Name            string
	ComponentConfig ComponentConfig
	// Kubeconfig says how to reach the API server and as whom.
	Kubeconfig *rest.Config
	// Client uses Kubeconfig, for what the manager itself does.
	Client kubernetes.Interface
	// SecureServing has the open listener, or is nil with --secure-port=0.
	SecureServing *server.SecureServingInfo
	// Authentication and Authorization say how to check who asks. They ask
	// the API server, so they are applied only once that answers.
	Authentication *apiserveroptions.DelegatingAuthenticationOptions
	Authorization  *apiserveroptions.DelegatingAuthorizationOptions
	// Flags are what /flagz shows.
	Flags flagz.Reader
	// Version is what /statusz shows: the version of Kubernetes whose
	// behaviour this is.
	Version basecompatibility.EffectiveVersion
	// Identity is the name of this replica in the Lease. Complete makes one up.
	Identity string
	// InformerName tells the informers in the metrics from others of this
	// process.
	InformerName string
	// Cloud is the one whose loops this program runs, or nil.
	Cloud cloudprovider.Interface
	// ControllerShutdownTimeout is how long controllers may take to stop.
	// Zero waits as long as it takes.
	ControllerShutdownTimeout time.Duration
	// CrashOnPanic has a panic of a loop end the process.
	CrashOnPanic bool
}

// CompletedConfig is a Config that was completed. Only Complete makes one that
// holds anything, so what takes a CompletedConfig cannot be handed half of a
// configuration.
type CompletedConfig struct {
	*completedConfig
}

type completedConfig struct {
	*Config
}

// Complete fills in what was left open: the name of this replica in the election,
// unless it has one. No other replica has that name, and people read in it on which
// host the replica runs.
func (c *Config) Complete() (CompletedConfig, error) {
	if c.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return CompletedConfig{}, fmt.Errorf("find a name for this replica: %w", err)
		}
		c.Identity = host + "_" + uuid.NewString()
	}
	return CompletedConfig{&completedConfig{c}}, nil
}
