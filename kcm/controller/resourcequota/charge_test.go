package resourcequota

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

// deleted is a pod whose deletion was asked for so long before noon.
func deleted(ago, grace time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp = &metav1.Time{Time: noon.Add(-ago).Add(grace)}
		p.DeletionGracePeriodSeconds = ptr.To(int64(grace / time.Second))
	}
}

func TestPodsAreCharged(t *testing.T) {
	t.Parallel()
	sidecar := func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{
			{Name: "proxy", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Resources: asks("cpu=100m", "")},
			{Name: "setup", Resources: asks("cpu=1 memory=1Gi", "")},
		}
	}
	shrinking := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c0", Resources: &corev1.ResourceRequirements{Requests: list("cpu=2")}}}
	}
	for _, c := range []struct {
		name, situation string
		pod             *corev1.Pod
		want            string
	}{
		{
			"one that asks for nothing is a pod", "a container without requests runs",
			pod("web", asks("", "")), "count/pods=1 pods=1",
		},
		{
			"containers are added up, and each request has two names", "two containers run",
			pod("web", asks("cpu=100m memory=1Gi", "cpu=1"), asks("cpu=200m", "memory=2Gi")),
			"count/pods=1 cpu=300m limits.cpu=1 limits.memory=2Gi memory=1Gi pods=1 requests.cpu=300m requests.memory=1Gi",
		},
		{
			"what runs before counts if it needs more than what runs later", "a setup needs 1 CPU beside a sidecar of 100m, and what comes then 200m",
			with(pod("web", asks("cpu=200m", "")), sidecar),
			"count/pods=1 cpu=1100m memory=1Gi pods=1 requests.cpu=1100m requests.memory=1Gi",
		},
		{
			"in a resize the larger counts", "a container asks for 1 CPU, and has still 2",
			with(pod("web", asks("cpu=1", "")), shrinking), "count/pods=1 cpu=2 pods=1 requests.cpu=2",
		},
		{
			"the overhead of its runtime is on top", "a container and 50m for its virtual machine",
			with(pod("web", asks("cpu=1", "cpu=1")), func(p *corev1.Pod) { p.Spec.Overhead = list("cpu=50m") }),
			"count/pods=1 cpu=1050m limits.cpu=1050m pods=1 requests.cpu=1050m",
		},
		{
			"devices are charged as requests only, huge pages also by their own name", "a container has a GPU, 2 Mi of huge pages and local storage",
			pod("web", asks("example.com/gpu=1 hugepages-2Mi=2Mi ephemeral-storage=1Gi", "example.com/gpu=1 hugepages-2Mi=2Mi ephemeral-storage=2Gi")),
			"count/pods=1 ephemeral-storage=1Gi hugepages-2Mi=2Mi limits.ephemeral-storage=2Gi pods=1 requests.ephemeral-storage=1Gi requests.example.com/gpu=1 requests.hugepages-2Mi=2Mi",
		},
		{
			"one that has succeeded is an object, and no more", "it has asked for CPU",
			with(pod("web", asks("cpu=1", "")), phase(corev1.PodSucceeded)), "count/pods=1",
		},
		{
			"one that has failed is an object, and no more", "it has asked for CPU",
			with(pod("web", asks("cpu=1", "")), phase(corev1.PodFailed)), "count/pods=1",
		},
		{
			"one that is being deleted may still run", "it was to be gone 20 seconds ago, and has a grace period of 30",
			with(pod("web"), deleted(50*time.Second, 30*time.Second)), "count/pods=1 pods=1 until 12:00:10",
		},
		{
			"one that was to be gone for a grace period is charged no more", "it was to be gone 31 seconds ago, and has a grace period of 30",
			with(pod("web"), deleted(61*time.Second, 30*time.Second)), "count/pods=1",
		},
		{
			"at the last moment it is charged", "it was to be gone 30 seconds ago, and has a grace period of 30",
			with(pod("web"), deleted(60*time.Second, 30*time.Second)), "count/pods=1 pods=1 until 12:00:00",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			check := func(p *corev1.Pod, what string) {
				charge, until := chargeOf(p, pods, noon)
				got := written(charge.used)
				if !until.IsZero() {
					got += until.UTC().Format(" until 15:04:05")
				}
				assert.Equal(t, c.want, got, "%s, %s", c.situation, what)
			}
			check(c.pod, "and its informer shows all of it")
			trimmed, err := controller.Trim(Reads...)(c.pod.DeepCopy())
			require.NoError(t, err)
			check(trimmed.(*corev1.Pod), "and its informer shows what the cache has of it")
		})
	}
}

func TestServicesAreCharged(t *testing.T) {
	t.Parallel()
	service := func(kind corev1.ServiceType, allocate *bool, nodePorts ...int32) *corev1.Service {
		s := &corev1.Service{ObjectMeta: meta("shop"), Spec: corev1.ServiceSpec{Type: kind, AllocateLoadBalancerNodePorts: allocate}}
		for _, port := range nodePorts {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{NodePort: port})
		}
		return s
	}
	for _, c := range []struct {
		name    string
		service *corev1.Service
		want    string
	}{
		{"an ordinary one has no ports on nodes", service(corev1.ServiceTypeClusterIP, nil, 0, 0),
			"count/services=1 services=1 services.loadbalancers=0 services.nodeports=0"},
		{"one on the ports of nodes has as many as it has ports", service(corev1.ServiceTypeNodePort, nil, 30080, 30443),
			"count/services=1 services=1 services.loadbalancers=0 services.nodeports=2"},
		{"a load balancer is to get a port for each", service(corev1.ServiceTypeLoadBalancer, nil, 0, 0),
			"count/services=1 services=1 services.loadbalancers=1 services.nodeports=2"},
		{"one that is to get none has those that it names", service(corev1.ServiceTypeLoadBalancer, ptr.To(false), 0, 30443, 30444),
			"count/services=1 services=1 services.loadbalancers=1 services.nodeports=2"},
		{"a name of something outside has nothing", service(corev1.ServiceTypeExternalName, nil),
			"count/services=1 services=1 services.loadbalancers=0 services.nodeports=0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			charge, _ := chargeOf(c.service, services, noon)
			assert.Equal(t, c.want, written(charge.used))
		})
	}
}

func TestClaimsAreCharged(t *testing.T) {
	t.Parallel()
	claim := func(class *string, asked, allocated string) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: meta("data"), Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: class}}
		c.Spec.Resources.Requests, c.Status.AllocatedResources = list(asked), list(allocated)
		return c
	}
	gold := ptr.To("gold")
	for _, c := range []struct {
		name  string
		claim *corev1.PersistentVolumeClaim
		want  string
	}{
		{"one without a class counts once", claim(nil, "storage=1Gi", ""),
			"count/persistentvolumeclaims=1 persistentvolumeclaims=1 requests.storage=1Gi"},
		{"one of a class counts for that as well", claim(gold, "storage=1Gi", ""),
			"count/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/requests.storage=1Gi persistentvolumeclaims=1 requests.storage=1Gi"},
		{"a part of a byte is a byte", claim(nil, "storage=1500m", ""),
			"count/persistentvolumeclaims=1 persistentvolumeclaims=1 requests.storage=2"},
		{"what it was given counts if that is more", claim(nil, "storage=1Gi", "storage=2Gi"),
			"count/persistentvolumeclaims=1 persistentvolumeclaims=1 requests.storage=2Gi"},
		{"what it asks for counts if that is more", claim(nil, "storage=3Gi", "storage=2Gi"),
			"count/persistentvolumeclaims=1 persistentvolumeclaims=1 requests.storage=3Gi"},
		{"the class in the old annotation comes first", with(claim(gold, "", ""), func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "old"}
		}), "count/persistentvolumeclaims=1 old.storageclass.storage.k8s.io/persistentvolumeclaims=1 persistentvolumeclaims=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			charge, _ := chargeOf(c.claim, volumeClaims, noon)
			assert.Equal(t, c.want, written(charge.used))
		})
	}
	t.Run("of devices, the worst case counts for each class", func(t *testing.T) {
		t.Parallel()
		exact, every := resourcev1.DeviceAllocationModeExactCount, resourcev1.DeviceAllocationModeAll
		claim := &resourcev1.ResourceClaim{}
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{
			{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: exact, Count: 2}},
			{FirstAvailable: []resourcev1.DeviceSubRequest{
				{DeviceClassName: "gpu", AllocationMode: exact, Count: 1}, {DeviceClassName: "gpu", AllocationMode: exact, Count: 4},
				{DeviceClassName: "nic", AllocationMode: every},
			}},
			{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "fpga", AllocationMode: "Later"}},
		}
		charge, _ := chargeOf(claim, deviceClaims, noon)
		assert.Equal(t, "count/resourceclaims.resource.k8s.io=1 fpga.deviceclass.resource.k8s.io/devices=0 gpu.deviceclass.resource.k8s.io/devices=6 nic.deviceclass.resource.k8s.io/devices=32",
			written(charge.used))
	})
	t.Run("what is only counted has an older name if there is one", func(t *testing.T) {
		t.Parallel()
		for resource, want := range map[schema.GroupResource]string{
			{Resource: "secrets"}:                    "count/secrets=1 secrets=1",
			{Group: "apps", Resource: "deployments"}: "count/deployments.apps=1",
			{Group: "example.com", Resource: "pods"}: "count/pods.example.com=1",
		} {
			charge, _ := chargeOf(&metav1.PartialObjectMetadata{}, resource, noon)
			assert.Equal(t, want, written(charge.used))
		}
	})
}

func TestEachNameIsAboutObjectsOfOneResource(t *testing.T) {
	t.Parallel()
	for name, want := range map[corev1.ResourceName]string{
		"cpu": "pods", "limits.memory": "pods", "count/pods": "pods", "hugepages-2Mi": "pods", "requests.hugepages-1Gi": "pods",
		"requests.example.com/gpu": "pods", "requests.deviceclass.resource.kubernetes.io/gpu": "pods",
		"services.nodeports": "services", "count/services": "services",
		"requests.storage": "persistentvolumeclaims", "gold.storageclass.storage.k8s.io/requests.storage": "persistentvolumeclaims",
		"gpu.deviceclass.resource.k8s.io/devices": "resourceclaims.resource.k8s.io",
		"configmaps": "configmaps", "count/configmaps": "configmaps",
		"count/comets.sky.example.com": "comets.sky.example.com",
		"limits.example.com/gpu":       "nobody", "example.com/gpu": "nobody", "requests.kubernetes.io/batteries": "nobody", "shoes": "nobody",
	} {
		user, ok := userOf(name)
		if !ok {
			user.Resource = "nobody"
		}
		assert.Equal(t, want, user.String(), "whose objects use %s", name)
	}
}

func TestChargesThatAreAlikeHaveOneKey(t *testing.T) {
	t.Parallel()
	one := charge{used: list("cpu=1 pods=1"), scopes: scopes{corev1.ResourceQuotaScopePriorityClass: {"high"}}}
	assert.Equal(t, one.key(), charge{used: list("pods=1 cpu=1000m"), scopes: scopes{corev1.ResourceQuotaScopePriorityClass: {"high"}}}.key())
	for what, other := range map[string]charge{
		"another quantity": {used: list("cpu=2 pods=1"), scopes: one.scopes},
		"another name":     {used: list("memory=1 pods=1"), scopes: one.scopes},
		"another value":    {used: one.used, scopes: scopes{corev1.ResourceQuotaScopePriorityClass: {"low"}}},
		"no value":         {used: one.used, scopes: scopes{corev1.ResourceQuotaScopePriorityClass: nil}},
		"no scope":         {used: one.used},
	} {
		assert.NotEqual(t, one.key(), other.key(), what)
	}
}

func TestAPodWithAGracePeriodOfAgesStaysCharged(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		DeletionTimestamp: &metav1.Time{Time: now}, DeletionGracePeriodSeconds: ptr.To[int64](math.MaxInt64),
	}}
	assert.True(t, overdue(pod).After(now.AddDate(100, 0, 0)), "it is overdue at %s", overdue(pod))
}
