package endpointslice

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/endpointslice/topologycache"
	"k8s.io/endpointslice/trafficdist"
	"k8s.io/klog/v2"
)

// hint writes into the slices of a plan whom each endpoint is meant for, as the
// Service asks for it, and adds those to the plan of which nothing else has
// changed. What is to be said follows from two libraries of Kubernetes: one
// spreads endpoints over zones by their CPUs (annotation), one names the zone or
// node of each endpoint (trafficDistribution).
func (c *Controller) hint(logger klog.Logger, service *corev1.Service, addressType discoveryv1.AddressType, plan *Plan) {
	info := &topologycache.SliceInfo{
		ServiceKey:  cache.MetaObjectToName(service).String(),
		AddressType: addressType,
		ToCreate:    plan.Create,
		ToUpdate:    plan.Update,
		Unchanged:   plan.Unchanged,
	}
	if !hasFamily(service, addressType) {
		c.topology.RemoveHints(info.ServiceKey, addressType)
		return
	}
	if isTopologyAware(service) {
		var events []*topologycache.EventBuilder
		plan.Create, plan.Update, events = c.topology.AddHints(logger, info)
		plan.Unchanged = info.Unchanged
		for _, e := range events {
			c.events.Event(service, e.EventType, e.Reason, e.Message)
		}
		return
	}
	if c.topology.HasPopulatedHints(info.ServiceKey) {
		c.events.Event(service, corev1.EventTypeWarning, "TopologyAwareHintsDisabled",
			topologycache.FormatWithAddressType(topologycache.TopologyAwareHintsDisabled, addressType))
	}
	c.topology.RemoveHints(info.ServiceKey, addressType)
	// Without a distribution this takes hints away.
	plan.Create, plan.Update, plan.Unchanged = trafficdist.ReconcileHints(
		service.Spec.TrafficDistribution, info.ToCreate, info.ToUpdate, info.Unchanged)
}

// isTopologyAware tells whether the Service's annotation asks for hints. It comes
// before the field.
func isTopologyAware(service *corev1.Service) bool {
	mode, ok := service.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	if !ok {
		mode = service.Annotations[corev1.AnnotationTopologyMode]
	}
	return mode == "Auto" || mode == "auto"
}
