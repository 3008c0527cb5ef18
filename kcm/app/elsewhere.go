package app

import (
	"context"
	"slices"

	"k8s.io/klog/v2"
)

// controllersElsewhere are the controllers of kube-controller-manager that kcm
// does not have, with their aliases. They may stand in --controllers, because
// kubeadm puts some there.
var controllersElsewhere = map[string][]string{
	"bootstrap-signer-controller":                                    {"bootstrapsigner"},
	"certificatesigningrequest-approving-controller":                 {"csrapproving"},
	"certificatesigningrequest-cleaner-controller":                   {"csrcleaner"},
	"certificatesigningrequest-signing-controller":                   {"csrsigning"},
	"cloud-node-lifecycle-controller":                                {"cloud-node-lifecycle"},
	"clusterrole-aggregation-controller":                             {"clusterrole-aggregation"},
	"cronjob-controller":                                             {"cronjob"},
	"daemonset-controller":                                           {"daemonset"},
	"device-taint-eviction-controller":                               {},
	"disruption-controller":                                          {"disruption"},
	"endpoints-controller":                                           {"endpoint"},
	"endpointslice-controller":                                       {"endpointslice"},
	"endpointslice-mirroring-controller":                             {"endpointslicemirroring"},
	"ephemeral-volume-controller":                                    {"ephemeral-volume"},
	"garbage-collector-controller":                                   {"garbagecollector"},
	"horizontal-pod-autoscaler-controller":                           {"horizontalpodautoscaling"},
	"job-controller":                                                 {"job"},
	"kube-apiserver-serving-clustertrustbundle-publisher-controller": {},
	"legacy-serviceaccount-token-cleaner-controller":                 {"legacy-service-account-token-cleaner"},
	"namespace-controller":                                           {"namespace"},
	"node-ipam-controller":                                           {"nodeipam"},
	"node-lifecycle-controller":                                      {"nodelifecycle"},
	"node-route-controller":                                          {"route"},
	"persistentvolume-attach-detach-controller":                      {"attachdetach"},
	"persistentvolume-binder-controller":                             {"persistentvolume-binder"},
	"persistentvolume-expander-controller":                           {"persistentvolume-expander"},
	"persistentvolume-protection-controller":                         {"pv-protection"},
	"persistentvolumeclaim-protection-controller":                    {"pvc-protection"},
	"pod-garbage-collector-controller":                               {"podgc"},
	"podcertificaterequest-cleaner-controller":                       {},
	"podgroup-protection-controller":                                 {},
	"resourceclaim-controller":                                       {"resource-claim-controller"},
	"resourcepoolstatusrequest-controller":                           {},
	"resourcequota-controller":                                       {"resourcequota"},
	"selinux-warning-controller":                                     {},
	"service-cidr-controller":                                        {},
	"service-lb-controller":                                          {"service"},
	"statefulset-controller":                                         {"statefulset"},
	"storage-version-migrator-controller":                            {"svm"},
	"storageversion-garbage-collector-controller":                    {"storage-version-gc"},
	"taint-eviction-controller":                                      {},
	"token-cleaner-controller":                                       {"tokencleaner"},
	"ttl-after-finished-controller":                                  {"ttl-after-finished"},
	"ttl-controller":                                                 {"ttl"},
	"validatingadmissionpolicy-status-controller":                    {},
	"volumeattributesclass-protection-controller":                    {},
}

// namesElsewhere returns names and aliases, sorted.
func namesElsewhere() []string {
	var names []string
	for name, aliases := range controllersElsewhere {
		names = append(append(names, name), aliases...)
	}
	slices.Sort(names)
	return names
}

// logControllersElsewhere says which of the wanted controllers do not run
// because kcm does not have them.
func logControllersElsewhere(ctx context.Context, wanted []string) {
	var missing []string
	for name, aliases := range controllersElsewhere {
		named := func(item string) bool { return item == name || slices.Contains(aliases, item) }
		if slices.Contains(wanted, "*") || slices.ContainsFunc(wanted, named) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		klog.FromContext(ctx).Info("Nothing does the work of these controllers, kcm does not have them", "controllers", missing)
	}
}
