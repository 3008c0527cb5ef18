package config

import (
	_ "embed"
	"fmt"

	cmconfigv1alpha1 "k8s.io/controller-manager/config/v1alpha1"
	kcmconfig "k8s.io/kube-controller-manager/config/v1alpha1"
	"sigs.k8s.io/yaml"
)

//go:embed configz.yaml
var configzYAML []byte

// External returns the configuration in the form in which /configz shows it.
// What is for loops that kcm does not have is at the original's defaults.
func (c *ComponentConfig) External() (*kcmconfig.KubeControllerManagerConfiguration, error) {
	out := &kcmconfig.KubeControllerManagerConfiguration{}
	if err := yaml.UnmarshalStrict(configzYAML, out); err != nil {
		return nil, fmt.Errorf("configz.yaml: %w", err)
	}
	err := cmconfigv1alpha1.Convert_config_GenericControllerManagerConfiguration_To_v1alpha1_GenericControllerManagerConfiguration(&c.Generic, &out.Generic, nil)
	if err != nil {
		return nil, fmt.Errorf("show the configuration as %s: %w", kcmconfig.SchemeGroupVersion, err)
	}
	out.KubeCloudShared.UseServiceAccountCredentials = c.UseServiceAccountCredentials
	out.KubeCloudShared.CloudProvider = c.Cloud.CloudProvider
	out.KubeCloudShared.ExternalCloudVolumePlugin = c.Cloud.ExternalCloudVolumePlugin
	out.KubeCloudShared.AllowUntaggedCloud = c.Cloud.AllowUntaggedCloud
	out.KubeCloudShared.CIDRAllocatorType = c.Cloud.CIDRAllocatorType
	out.KubeCloudShared.ConfigureCloudRoutes = c.Cloud.ConfigureCloudRoutes
	out.KubeCloudShared.NodeMonitorPeriod = c.Cloud.NodeMonitorPeriod
	out.DaemonSetController = c.DaemonSet
	out.DeploymentController = c.Deployment
	out.EndpointController = c.Endpoint
	out.EndpointSliceController = c.EndpointSlice
	out.EndpointSliceMirroringController = c.EndpointSliceMirroring
	out.NamespaceController = c.Namespace
	out.GarbageCollectorController = c.GarbageCollector
	out.PodGCController = c.PodGC
	out.JobController = c.Job
	out.CronJobController = c.CronJob
	out.ReplicaSetController = c.ReplicaSet
	out.ReplicationController = c.Replication
	out.ResourceQuotaController = c.ResourceQuota
	out.SAController = c.ServiceAccount
	out.TTLAfterFinishedController = c.TTLAfterFinished
	return out, nil
}
