package config

import (
	_ "embed"
	"fmt"

	cmconfigv1alpha1 "k8s.io/controller-manager/config/v1alpha1"
	"sigs.k8s.io/yaml"
)

//go:embed defaults.yaml
var defaultsYAML []byte

// NewComponentConfig returns the original's defaults: those in defaults.yaml, and of
// what all controller managers have in common the recommended ones, but for what
// kube-controller-manager sets differently.
func NewComponentConfig() (*ComponentConfig, error) {
	c := &ComponentConfig{}
	if err := yaml.UnmarshalStrict(defaultsYAML, &c.KubeControllerManagerConfiguration); err != nil {
		return nil, fmt.Errorf("defaults.yaml: %w", err)
	}
	generic := &c.KubeControllerManagerConfiguration.Generic
	generic.ClientConnection.QPS = 20
	generic.ClientConnection.Burst = 30
	generic.LeaderElection.ResourceName = ManagerName
	generic.LeaderElection.ResourceNamespace = "kube-system"
	cmconfigv1alpha1.RecommendedDefaultGenericControllerManagerConfiguration(generic)
	return c, cmconfigv1alpha1.Convert_v1alpha1_GenericControllerManagerConfiguration_To_config_GenericControllerManagerConfiguration(generic, &c.Generic, nil)
}
