package app

import (
	"context"

	"k8s.io/klog/v2"
)

// controllersElsewhere are the controllers of kube-controller-manager that kcm
// does not have. Their names may stand in --controllers, because kubeadm puts
// some there.
var controllersElsewhere = []*ControllerDescriptor{
	{name: "bootstrap-signer-controller", aliases: []string{"bootstrapsigner"}, disabledByDefault: true},
	{name: "certificatesigningrequest-approving-controller", aliases: []string{"csrapproving"}},
	{name: "certificatesigningrequest-cleaner-controller", aliases: []string{"csrcleaner"}},
	{name: "certificatesigningrequest-signing-controller", aliases: []string{"csrsigning"}},
	{name: "cloud-node-lifecycle-controller", aliases: []string{"cloud-node-lifecycle"}},
	{name: "clusterrole-aggregation-controller", aliases: []string{"clusterrole-aggregation"}},
	{name: "cronjob-controller", aliases: []string{"cronjob"}},
	{name: "daemonset-controller", aliases: []string{"daemonset"}},
	{name: "device-taint-eviction-controller"},
	{name: "disruption-controller", aliases: []string{"disruption"}},
	{name: "endpoints-controller", aliases: []string{"endpoint"}},
	{name: "endpointslice-controller", aliases: []string{"endpointslice"}},
	{name: "endpointslice-mirroring-controller", aliases: []string{"endpointslicemirroring"}},
	{name: "ephemeral-volume-controller", aliases: []string{"ephemeral-volume"}},
	{name: "garbage-collector-controller", aliases: []string{"garbagecollector"}},
	{name: "horizontal-pod-autoscaler-controller", aliases: []string{"horizontalpodautoscaling"}},
	{name: "job-controller", aliases: []string{"job"}},
	{name: "kube-apiserver-serving-clustertrustbundle-publisher-controller"},
	{name: "legacy-serviceaccount-token-cleaner-controller", aliases: []string{"legacy-service-account-token-cleaner"}},
	{name: "namespace-controller", aliases: []string{"namespace"}},
	{name: "node-ipam-controller", aliases: []string{"nodeipam"}},
	{name: "node-lifecycle-controller", aliases: []string{"nodelifecycle"}},
	{name: "node-route-controller", aliases: []string{"route"}},
	{name: "persistentvolume-attach-detach-controller", aliases: []string{"attachdetach"}},
	{name: "persistentvolume-binder-controller", aliases: []string{"persistentvolume-binder"}},
	{name: "persistentvolume-expander-controller", aliases: []string{"persistentvolume-expander"}},
	{name: "persistentvolume-protection-controller", aliases: []string{"pv-protection"}},
	{name: "persistentvolumeclaim-protection-controller", aliases: []string{"pvc-protection"}},
	{name: "pod-garbage-collector-controller", aliases: []string{"podgc"}},
	{name: "podcertificaterequest-cleaner-controller"},
	{name: "podgroup-protection-controller"},
	{name: "resourceclaim-controller", aliases: []string{"resource-claim-controller"}},
	{name: "resourcepoolstatusrequest-controller"},
	{name: "resourcequota-controller", aliases: []string{"resourcequota"}},
	{name: "selinux-warning-controller", disabledByDefault: true},
	{name: "service-cidr-controller"},
	{name: "service-lb-controller", aliases: []string{"service"}},
	{name: "statefulset-controller", aliases: []string{"statefulset"}},
	{name: "storage-version-migrator-controller", aliases: []string{"svm"}},
	{name: "storageversion-garbage-collector-controller", aliases: []string{"storage-version-gc"}},
	{name: "taint-eviction-controller"},
	{name: "token-cleaner-controller", aliases: []string{"tokencleaner"}, disabledByDefault: true},
	{name: "ttl-after-finished-controller", aliases: []string{"ttl-after-finished"}},
	{name: "ttl-controller", aliases: []string{"ttl"}},
	{name: "validatingadmissionpolicy-status-controller"},
	{name: "volumeattributesclass-protection-controller"},
}

// logControllersElsewhere says which controllers are wanted and do not run
// because kcm does not have them.
func logControllersElsewhere(ctx context.Context, c *ControllerContext) {
	missing := names(controllersElsewhere, c.IsControllerEnabled)
	if len(missing) > 0 {
		klog.FromContext(ctx).Info("Nothing does the work of these controllers, kcm does not have them", "controllers", missing)
	}
}
