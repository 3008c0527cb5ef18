package config

import (
	"fmt"

	cmconfigv1alpha1 "k8s.io/controller-manager/config/v1alpha1"
	kcmconfig "k8s.io/kube-controller-manager/config/v1alpha1"
)

// External returns the configuration in the form in which /configz shows it.
func (c *ComponentConfig) External() (*kcmconfig.KubeControllerManagerConfiguration, error) {
	out := c.KubeControllerManagerConfiguration.DeepCopy()
	err := cmconfigv1alpha1.Convert_config_GenericControllerManagerConfiguration_To_v1alpha1_GenericControllerManagerConfiguration(&c.Generic, &out.Generic, nil)
	if err != nil {
		return nil, fmt.Errorf("show the configuration as %s: %w", kcmconfig.SchemeGroupVersion, err)
	}
	return out, nil
}
