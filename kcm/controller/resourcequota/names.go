package resourcequota

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The resources whose objects use more than their number.
var (
	pods         = schema.GroupResource{Resource: "pods"}
	services     = schema.GroupResource{Resource: "services"}
	volumeClaims = schema.GroupResource{Resource: "persistentvolumeclaims"}
	deviceClaims = schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"}
)

const (
	countPrefix    = "count/"
	requestsPrefix = corev1.DefaultResourceRequestsPrefix
	// classInfix is between the name of a storage class and what is counted of it.
	classInfix = ".storageclass.storage.k8s.io/"
)

// users says which objects use what has a name of its own. Four of the names are
// older than count/ and mean the same.
var users = map[corev1.ResourceName]schema.GroupResource{
	corev1.ResourcePods:                     pods,
	corev1.ResourceCPU:                      pods,
	corev1.ResourceMemory:                   pods,
	corev1.ResourceEphemeralStorage:         pods,
	corev1.ResourceRequestsCPU:              pods,
	corev1.ResourceRequestsMemory:           pods,
	corev1.ResourceRequestsEphemeralStorage: pods,
	corev1.ResourceLimitsCPU:                pods,
	corev1.ResourceLimitsMemory:             pods,
	corev1.ResourceLimitsEphemeralStorage:   pods,
	corev1.ResourceServices:                 services,
	corev1.ResourceServicesNodePorts:        services,
	corev1.ResourceServicesLoadBalancers:    services,
	corev1.ResourcePersistentVolumeClaims:   volumeClaims,
	corev1.ResourceRequestsStorage:          volumeClaims,
	corev1.ResourceConfigMaps:               {Resource: "configmaps"},
	corev1.ResourceQuotas:                   {Resource: "resourcequotas"},
	corev1.ResourceReplicationControllers:   {Resource: "replicationcontrollers"},
	corev1.ResourceSecrets:                  {Resource: "secrets"},
}

// userOf returns whose objects use what a quota limits under a name, which may
// be a resource that the API server does not have. It is not ok for a name that
// nothing is charged by.
func userOf(name corev1.ResourceName) (user schema.GroupResource, ok bool) {
	s := string(name)
	if user, ok = users[name]; ok {
		return user, true
	}
	if counted, ok := strings.CutPrefix(s, countPrefix); ok {
		return schema.ParseGroupResource(counted), true
	}
	switch {
	case strings.HasSuffix(s, classInfix+string(corev1.ResourcePersistentVolumeClaims)),
		strings.HasSuffix(s, classInfix+string(corev1.ResourceRequestsStorage)):
		return volumeClaims, true
	case strings.HasSuffix(s, corev1.ResourceClaimsPerClass):
		return deviceClaims, true
	case strings.HasPrefix(strings.TrimPrefix(s, requestsPrefix), corev1.ResourceHugePagesPrefix):
		return pods, true
	case strings.HasPrefix(s, requestsPrefix) && isExtended(corev1.ResourceName(strings.TrimPrefix(s, requestsPrefix))):
		return pods, true
	}
	return schema.GroupResource{}, false
}

// isExtended tells whether a container's resource is of somebody else than
// Kubernetes, such as example.com/gpu, or the devices of a class.
func isExtended(name corev1.ResourceName) bool {
	s := string(name)
	return strings.HasPrefix(s, resourcev1.ResourceDeviceClassPrefix) ||
		strings.Contains(s, "/") && !strings.Contains(s, corev1.ResourceDefaultNamespacePrefix) && !strings.HasPrefix(s, requestsPrefix)
}

// counted is the name under which the objects of a resource are counted.
func counted(resource schema.GroupResource) corev1.ResourceName {
	return corev1.ResourceName(countPrefix + resource.String())
}

// limits tells of a quota whether it limits something that objects of a resource
// use.
func limits(resource schema.GroupResource) func(*corev1.ResourceQuota) bool {
	return func(quota *corev1.ResourceQuota) bool {
		for name := range quota.Spec.Hard {
			if user, ok := userOf(name); ok && user == resource {
				return true
			}
		}
		return false
	}
}
