package resourcequota

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// charge is what one object uses, and which scopes it is in.
type charge struct {
	used   corev1.ResourceList
	scopes scopes
}

// chargeOf returns the charge of an object at a time, and when it ends if it
// does so without a change of the object, or else the zero time.
func chargeOf(object any, resource schema.GroupResource, now time.Time) (c charge, until time.Time) {
	c = charge{used: corev1.ResourceList{counted(resource): number(1)}}
	switch object := object.(type) {
	case *corev1.Pod:
		until = c.addPod(object, now)
	case *corev1.Service:
		c.addService(object)
	case *corev1.PersistentVolumeClaim:
		c.addVolumeClaim(object)
	case *resourcev1.ResourceClaim:
		c.addDevices(object)
	default:
		c.addByName(resource)
	}
	return c, until
}

func number(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }

// addByName charges an object under the name of its kind that is older than
// count/, if it has one.
func (c *charge) addByName(resource schema.GroupResource) {
	name := corev1.ResourceName(resource.Resource)
	if user, ok := users[name]; ok && user == resource {
		c.used[name] = number(1)
	}
}

// addService charges a Service for ports on the nodes that it has or is to get,
// and for a load balancer.
func (c *charge) addService(service *corev1.Service) {
	c.used[corev1.ResourceServices] = number(1)
	ports, balancers := 0, 0
	switch service.Spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = len(service.Spec.Ports)
	case corev1.ServiceTypeLoadBalancer:
		balancers = 1
		for _, p := range service.Spec.Ports {
			if p.NodePort != 0 || ptr.Deref(service.Spec.AllocateLoadBalancerNodePorts, true) {
				ports++
			}
		}
	}
	c.used[corev1.ResourceServicesNodePorts] = number(ports)
	c.used[corev1.ResourceServicesLoadBalancers] = number(balancers)
}

// addVolumeClaim charges a claim for the larger of what it asks for and what it
// was given on the way there, in whole bytes.
func (c *charge) addVolumeClaim(claim *corev1.PersistentVolumeClaim) {
	c.scopes = scopes{corev1.ResourceQuotaScopeVolumeAttributesClass: attributesClasses(claim)}
	c.used[corev1.ResourcePersistentVolumeClaims] = number(1)
	storage, asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if asked {
		if allocated := claim.Status.AllocatedResources[corev1.ResourceStorage]; allocated.Cmp(storage) > 0 {
			storage = allocated
		}
		storage = storage.DeepCopy()
		storage.RoundUp(0)
		c.used[corev1.ResourceRequestsStorage] = storage
	}
	class := storagehelpers.GetPersistentVolumeClaimClass(claim)
	if class == "" {
		return
	}
	c.used[corev1.ResourceName(class+classInfix)+corev1.ResourcePersistentVolumeClaims] = number(1)
	if asked {
		c.used[corev1.ResourceName(class+classInfix)+corev1.ResourceRequestsStorage] = storage
	}
}

// attributesClasses returns the classes that a claim has, had, or is to have.
func attributesClasses(claim *corev1.PersistentVolumeClaim) []string {
	classes := []string{ptr.Deref(claim.Spec.VolumeAttributesClassName, ""), ptr.Deref(claim.Status.CurrentVolumeAttributesClassName, "")}
	if modify := claim.Status.ModifyVolumeStatus; modify != nil {
		classes = append(classes, modify.TargetVolumeAttributesClassName)
	}
	slices.Sort(classes)
	return slices.DeleteFunc(slices.Compact(classes), func(class string) bool { return class == "" })
}

// addDevices charges a claim for the devices that it may get of each class. Of
// alternatives it gets one, so of each class the largest counts.
func (c *charge) addDevices(claim *resourcev1.ResourceClaim) {
	for _, request := range claim.Spec.Devices.Requests {
		most := map[string]int64{}
		if exactly := request.Exactly; exactly != nil && len(request.FirstAvailable) == 0 {
			most[exactly.DeviceClassName] = devices(exactly.AllocationMode, exactly.Count)
		}
		for _, either := range request.FirstAvailable {
			most[either.DeviceClassName] = max(most[either.DeviceClassName], devices(either.AllocationMode, either.Count))
		}
		for class, n := range most {
			name := corev1.ResourceName(class + corev1.ResourceClaimsPerClass)
			sum := c.used[name]
			sum.Add(*resource.NewQuantity(n, resource.DecimalSI))
			c.used[name] = sum
		}
	}
}

// devices is how many a request may get. All that there are may be as many as a
// claim can have.
func devices(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return count
	case resourcev1.DeviceAllocationModeAll:
		return resourcev1.AllocationResultsMaxSize
	default:
		return 0 // a mode of a later version
	}
}

// key is a text. It differs for charges that a quota can tell apart, and is the same
// for those that are written alike.
func (c charge) key() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.used)) {
		quantity := c.used[name]
		b.WriteString(" " + string(name) + "=" + quantity.String())
	}
	for _, scope := range slices.Sorted(maps.Keys(c.scopes)) {
		b.WriteString(" " + string(scope))
		for _, value := range c.scopes[scope] {
			b.WriteString("=" + value)
		}
	}
	return b.String()
}
