// Package charges compares what kcm's loop for quotas charges with what the evaluators of the original do, object by
// object.
package charges

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"pgregory.net/rapid"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/resourcequota"
)

// TestKcmAndTheOriginalChargeTheSame makes pods, Services, claims and quotas at random. What kcm's loop writes into the
// status of each quota has to be what the original's evaluators compute, by which its API server charges, too.
func TestKcmAndTheOriginalChargeTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		var objects []runtime.Object
		for i := range rapid.IntRange(0, 6).Draw(r, "objects") {
			objects = append(objects, chargedObject(r, fmt.Sprint("object-", i)))
		}
		for i := range rapid.IntRange(1, 4).Draw(r, "quotas") {
			objects = append(objects, someQuota(r, fmt.Sprint("quota-", i)))
		}
		trimmed := rapid.Bool().Draw(r, "trimmed")
		var differences []string
		synctest.Test(t, func(t *testing.T) { differences = usages(t, objects, trimmed) })
		for _, d := range differences {
			r.Error(d)
		}
	})
}

// usages runs kcm's loop on a cluster with the objects for ten seconds, and returns in what it differs from the
// original's evaluators then.
func usages(t *testing.T, objects []runtime.Object, trimmed bool) (differences []string) {
	ctx, cancel := context.WithCancel(t.Context())
	client := fake.NewSimpleClientset(objects...)
	ours := informers.NewSharedInformerFactory(client, 0)
	if trimmed {
		ours = informers.NewSharedInformerFactoryWithOptions(client, 0,
			informers.WithTransform(controller.Trim(resourcequota.Reads...)))
	}
	loop := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient: client.CoreV1(), ResourceQuotaInformer: ours.Core().V1().ResourceQuotas(),
		ResyncPeriod: func() time.Duration { return 0 }, InformerFactory: ours,
		DiscoveryFunc: func() ([]*metav1.APIResourceList, error) {
			return []*metav1.APIResourceList{
				{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod", Namespaced: true}}},
				{GroupVersion: "resource.k8s.io/v1", APIResources: []metav1.APIResource{
					{Name: "resourceclaims", Kind: "ResourceClaim", Namespaced: true,
						Verbs: metav1.Verbs{"create", "delete", "list", "watch"}},
				}},
			}, nil
		},
	})
	theirs := informers.NewSharedInformerFactory(client, 0)
	evaluators, err := core.NewEvaluators(generic.ListerFuncForResourceFunc(theirs.ForResource), theirs, nil)
	require.NoError(t, err)
	for _, e := range evaluators {
		_, err := theirs.ForResource(e.GroupResource().WithVersion("v1"))
		require.NoError(t, err)
	}
	ours.Start(ctx.Done())
	theirs.Start(ctx.Done())
	theirs.WaitForCacheSync(ctx.Done())
	ended := make(chan struct{})
	go func() { loop.Run(ctx, 1); close(ended) }()
	time.Sleep(10 * time.Second)

	quotas, err := client.CoreV1().ResourceQuotas("here").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	for _, q := range quotas.Items {
		want, err := quota.CalculateUsage(q.Namespace, q.Spec.Scopes, q.Spec.Hard,
			generic.NewRegistry(evaluators), q.Spec.ScopeSelector)
		require.NoError(t, err)
		if !quota.Equals(want, q.Status.Used) {
			differences = append(differences, fmt.Sprintf("%s %v %+v:\nkcm      %v\noriginal %v", q.Name, q.Spec.Scopes,
				q.Spec.ScopeSelector, q.Status.Used, want))
		}
	}
	cancel()
	<-ended
	ours.Shutdown()
	theirs.Shutdown()
	return differences
}

// limitable are names that quotas limit here. Devices under the name of an extended resource are not among them: for
// claims of devices kcm does not charge these.
var limitable = []corev1.ResourceName{
	"pods", "count/pods", "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory",
	"requests.ephemeral-storage",
	"limits.cpu", "limits.memory", "limits.ephemeral-storage", "hugepages-2Mi", "requests.hugepages-2Mi",
	"requests.example.com/gpu",
	"services", "count/services", "services.nodeports", "services.loadbalancers",
	"persistentvolumeclaims", "count/persistentvolumeclaims", "requests.storage",
	"gold.storageclass.storage.k8s.io/requests.storage", "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
	"gpu.deviceclass.resource.k8s.io/devices", "count/resourceclaims.resource.k8s.io",
	"example.com/gpu", "shoes",
}

func someQuota(t *rapid.T, name string) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: name}}
	q.Spec.Hard = corev1.ResourceList{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(limitable), 1, 8, rapid.ID).Draw(t, "limits") {
		q.Spec.Hard[name] = resource.MustParse("1")
	}
	q.Spec.Scopes = rapid.SliceOfNDistinct(rapid.SampledFrom([]corev1.ResourceQuotaScope{
		"Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity",
		"PriorityClass", "VolumeAttributesClass",
	}), 0, 2, rapid.ID).Draw(t, "scopes")
	if rapid.Bool().Draw(t, "selector") {
		asked := corev1.ScopedResourceSelectorRequirement{
			ScopeName: rapid.SampledFrom([]corev1.ResourceQuotaScope{"PriorityClass", "VolumeAttributesClass"}).Draw(t, "scope"),
			Operator: rapid.SampledFrom([]corev1.ScopeSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist"}).Draw(t,
				"operator"),
		}
		if asked.Operator == "In" || asked.Operator == "NotIn" {
			asked.Values = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"high", "low", "other"}), 1, 2,
				rapid.ID).Draw(t, "values")
		}
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{asked}}
	}
	return q
}

func chargedObject(t *rapid.T, name string) runtime.Object {
	meta := metav1.ObjectMeta{Namespace: rapid.SampledFrom([]string{"here", "here", "there"}).Draw(t, "namespace"),
		Name: name}
	switch rapid.SampledFrom([]string{"pod", "pod", "pod", "service", "volume", "device"}).Draw(t, "kind") {
	case "service":
		return chargedService(t, meta)
	case "volume":
		return chargedVolumeClaim(t, meta)
	case "device":
		return chargedDeviceClaim(t, meta)
	default:
		return chargedPod(t, meta)
	}
}

// maybe draws a value, or nil.
func maybe[T any](t *rapid.T, what string, values ...T) *T {
	if rapid.Bool().Draw(t, "no "+what) {
		return nil
	}
	return new(rapid.SampledFrom(values).Draw(t, what))
}

func quantities(t *rapid.T, what string, names ...corev1.ResourceName) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, what) {
		list[name] = resource.MustParse(rapid.SampledFrom([]string{"0", "100m", "1", "1500m", "2", "1Gi", "3"}).Draw(t,
			string(name)))
	}
	return list
}

func requirements(t *rapid.T, names ...corev1.ResourceName) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: quantities(t, "requests", names...),
		Limits: quantities(t, "limits", names...)}
}

var containerResources = []corev1.ResourceName{
	"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu", "deviceclass.resource.kubernetes.io/gpu",
	"kubernetes.io/batteries",
}

func chargedPod(t *rapid.T, meta metav1.ObjectMeta) *corev1.Pod {
	if rapid.IntRange(0, 3).Draw(t, "deleted") == 0 {
		meta.Finalizers = []string{"example.com/held"}
		meta.DeletionTimestamp = &metav1.Time{Time: time.Date(2000, 1, 1, 0, 0,
			rapid.IntRange(-60, 20).Draw(t, "to be gone"), 0, time.UTC)}
		meta.DeletionGracePeriodSeconds = maybe[int64](t, "grace", 0, 3, 30)
	}
	pod := &corev1.Pod{ObjectMeta: meta}
	for i := range rapid.IntRange(0, 2).Draw(t, "containers") {
		pod.Spec.Containers = append(pod.Spec.Containers,
			corev1.Container{Name: fmt.Sprint("c", i), Resources: requirements(t, containerResources...)})
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "init containers") {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{
			Name: fmt.Sprint("i", i), Resources: requirements(t, containerResources...),
			RestartPolicy: maybe(t, "restart policy", corev1.ContainerRestartPolicyAlways),
		})
	}
	if rapid.IntRange(0, 3).Draw(t, "resources of the pod") == 0 {
		pod.Spec.Resources = new(requirements(t, "cpu", "memory", "hugepages-2Mi"))
	}
	if rapid.IntRange(0, 3).Draw(t, "overhead") == 0 {
		pod.Spec.Overhead = quantities(t, "overhead", "cpu", "memory")
	}
	pod.Spec.PriorityClassName = rapid.SampledFrom([]string{"", "high", "low"}).Draw(t, "priority class")
	pod.Spec.ActiveDeadlineSeconds = maybe[int64](t, "deadline", 0, 60)
	pod.Spec.Affinity = someAffinity(t)
	pod.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{"Pending", "Running", "Running", "Succeeded", "Failed"}).Draw(t,
		"phase")
	pod.Status.QOSClass = rapid.SampledFrom([]corev1.PodQOSClass{"BestEffort", "Burstable", "Guaranteed"}).Draw(t,
		"quality of service")
	for _, c := range append(pod.Spec.Containers, pod.Spec.InitContainers...) {
		status := corev1.ContainerStatus{Name: c.Name, AllocatedResources: quantities(t, "allocated", "cpu", "memory")}
		if rapid.Bool().Draw(t, "actuated") {
			status.Resources = new(requirements(t, "cpu", "memory"))
		}
		if c.Name[0] == 'c' {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
		} else {
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "infeasible") == 0 {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue,
			Reason: corev1.PodReasonInfeasible}}
	}
	return pod
}

func someAffinity(t *rapid.T) *corev1.Affinity {
	term := corev1.PodAffinityTerm{}
	switch rapid.IntRange(0, 3).Draw(t, "affinity") {
	case 0:
		term.Namespaces = []string{"there"}
	case 1:
		term.NamespaceSelector = &metav1.LabelSelector{}
	case 2:
		return nil
	}
	required, preferred := []corev1.PodAffinityTerm{term}, []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: term}}
	return rapid.SampledFrom([]*corev1.Affinity{
		{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}},
		{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred}},
		{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}},
		{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred}},
	}).Draw(t, "of what kind")
}

func chargedService(t *rapid.T, meta metav1.ObjectMeta) *corev1.Service {
	service := &corev1.Service{ObjectMeta: meta}
	service.Spec.Type = rapid.SampledFrom([]corev1.ServiceType{"ClusterIP", "NodePort", "LoadBalancer",
		"ExternalName"}).Draw(t, "type")
	service.Spec.AllocateLoadBalancerNodePorts = maybe(t, "allocate", true, false)
	for range rapid.IntRange(0, 3).Draw(t, "ports") {
		service.Spec.Ports = append(service.Spec.Ports,
			corev1.ServicePort{NodePort: rapid.SampledFrom([]int32{0, 30080}).Draw(t, "port")})
	}
	return service
}

func chargedVolumeClaim(t *rapid.T, meta metav1.ObjectMeta) *corev1.PersistentVolumeClaim {
	if class := maybe(t, "old class", "gold", ""); class != nil {
		meta.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: *class}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta}
	claim.Spec.StorageClassName = maybe(t, "class", "gold", "silver", "")
	claim.Spec.Resources.Requests = quantities(t, "requests", "storage")
	claim.Status.AllocatedResources = quantities(t, "allocated", "storage")
	claim.Spec.VolumeAttributesClassName = maybe(t, "wanted", "high", "low", "")
	claim.Status.CurrentVolumeAttributesClassName = maybe(t, "current", "high", "low", "")
	if target := maybe(t, "target", "high", "low", ""); target != nil {
		claim.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: *target}
	}
	return claim
}

func chargedDeviceClaim(t *rapid.T, meta metav1.ObjectMeta) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: meta}
	class := rapid.SampledFrom([]string{"gpu", "nic"})
	mode := rapid.SampledFrom([]resourcev1.DeviceAllocationMode{"ExactCount", "All", "Later"})
	for range rapid.IntRange(0, 3).Draw(t, "requests") {
		var request resourcev1.DeviceRequest
		if rapid.Bool().Draw(t, "exactly") {
			request.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: class.Draw(t, "class"),
				AllocationMode: mode.Draw(t, "mode"), Count: rapid.Int64Range(1, 4).Draw(t, "count")}
		}
		for range rapid.IntRange(0, 2).Draw(t, "alternatives") {
			request.FirstAvailable = append(request.FirstAvailable, resourcev1.DeviceSubRequest{
				DeviceClassName: class.Draw(t, "class"), AllocationMode: mode.Draw(t, "mode"),
				Count: rapid.Int64Range(1, 4).Draw(t, "count"),
			})
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
	}
	return claim
}
