package endpointslice

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/endpointslice/metrics"
	endpointsliceutil "k8s.io/endpointslice/util"
	"k8s.io/utils/ptr"
)

// measure tells of a plan for all slices of a Service what the original's metrics
// tell: how much it changes, and how well the slices are filled afterwards.
func (c *Controller) measure(service *corev1.Service, plan Plan) {
	mode, distribution := "Disabled", service.Spec.TrafficDistribution
	if isTopologyAware(service) {
		mode, distribution = "Auto", nil
	}
	metrics.EndpointsAddedPerSync.WithLabelValues().Observe(float64(plan.Added))
	metrics.EndpointsRemovedPerSync.WithLabelValues().Observe(float64(plan.Removed))
	metrics.EndpointSlicesChangedPerSync.WithLabelValues(mode, ptr.Deref(distribution, "")).
		Observe(float64(len(plan.Create) + len(plan.Update) + len(plan.Delete)))

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
	c.usage.UpdateTrafficDistributionForService(name, distribution)
}
