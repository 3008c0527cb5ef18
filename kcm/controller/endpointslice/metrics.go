package endpointslice

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/endpointslice/metrics"
	endpointsliceutil "k8s.io/endpointslice/util"
	"k8s.io/utils/ptr"
)

// countChanges tells of a plan for one address type of a Service how much it
// changes. The original counts each type by itself, too.
func countChanges(service *corev1.Service, plan Plan) {
	mode := "Disabled"
	if isTopologyAware(service) {
		mode = "Auto"
	}
	metrics.EndpointsAddedPerSync.WithLabelValues().Observe(float64(plan.Added))
	metrics.EndpointsRemovedPerSync.WithLabelValues().Observe(float64(plan.Removed))
	metrics.EndpointSlicesChangedPerSync.WithLabelValues(mode, ptr.Deref(distributionOf(service), "")).
		Observe(float64(len(plan.Create) + len(plan.Update) + len(plan.Delete)))
}

// distributionOf returns what the field of a Service asks for, or nil if it does
// not or the annotation comes before it.
func distributionOf(service *corev1.Service) *string {
	if isTopologyAware(service) {
		return nil
	}
	return service.Spec.TrafficDistribution
}

// measureUsage tells how well the slices of a Service are filled after a plan for
// all of them.
func (c *Controller) measureUsage(service *corev1.Service, plan Plan) {
	usage := map[endpointsliceutil.PortMapKey]metrics.EfficiencyInfo{}
	for _, slices := range [][]*discoveryv1.EndpointSlice{plan.Create, plan.Update, plan.Unchanged} {
		for _, slice := range slices {
			key := endpointsliceutil.PortMapKey(string(slice.AddressType) + " " + PortsKey(slice.Ports))
			usage[key] = metrics.EfficiencyInfo{Endpoints: usage[key].Endpoints + len(slice.Endpoints), Slices: usage[key].Slices + 1}
		}
	}
	ports := metrics.NewServicePortCache()
	for key, info := range usage {
		ports.Set(key, info)
	}
	name := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
	c.usage.UpdateServicePortCache(name, ports)
	c.usage.UpdateTrafficDistributionForService(name, distributionOf(service))
}
