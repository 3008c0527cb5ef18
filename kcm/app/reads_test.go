package app

//lint:file-ignore SA1019 Endpoints are deprecated, and are trimmed as other objects are.

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/randfill"

	"github.com/kcm-book/kcm-book/kcm/app/config"
	"github.com/kcm-book/kcm-book/kcm/controller"
)

// trimForAll trims for a manager in which all controllers run.
func trimForAll() cache.TransformFunc {
	return controller.Trim(reads(NewControllerDescriptors(), KnownControllers())...)
}

func TestTheCachesHaveWhatTheLoopsReadAndNoMore(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	kept := metav1.ObjectMeta{
		Name: "web", Generation: 2, Labels: map[string]string{"app": "web"}, Annotations: map[string]string{corev1.PodDeletionCost: "1"},
		Finalizers: []string{"example.com/held"}, OwnerReferences: []metav1.OwnerReference{{Name: "owner"}},
	}
	managed := *kept.DeepCopy()
	managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	doomed := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"}
	ended := corev1.ContainerStatus{Name: "ended", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: metav1.Unix(1, 0), Reason: "Error"}}}
	password := map[string][]byte{"password": []byte("secret")}

	trim := trimForAll()
	for what, test := range map[string]struct{ seen, want runtime.Object }{
		"of a CronJob, who has set what stays": {&batchv1.CronJob{ObjectMeta: managed}, &batchv1.CronJob{ObjectMeta: managed}},
		"of a pod, what is to run there goes": {
			&corev1.Pod{ObjectMeta: managed,
				Spec: corev1.PodSpec{
					NodeName: "node", Hostname: "web-0", Subdomain: "web", Volumes: []corev1.Volume{{Name: "data"}},
					Containers: []corev1.Container{
						{Name: "web", Image: "web:1", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP, HostPort: 80}, {ContainerPort: 9090}}},
						{Name: "worker", Ports: []corev1.ContainerPort{{ContainerPort: 7000}}},
					},
					InitContainers: []corev1.Container{{Name: "setup"}, {Name: "proxy", Image: "proxy:1", RestartPolicy: &always}},
				},
				Status: corev1.PodStatus{
					Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on memory", PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
					HostIP: "192.168.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled}, ready, doomed},
					ContainerStatuses:     []corev1.ContainerStatus{{Name: "web", RestartCount: 3, Image: "web:1"}, {Name: "waits", Image: "web:1"}, ended},
					InitContainerStatuses: []corev1.ContainerStatus{{Name: "proxy", RestartCount: 4, ImageID: "sha256:1"}, {Name: "setup"}},
				}},
			&corev1.Pod{ObjectMeta: kept,
				Spec: corev1.PodSpec{NodeName: "node", Hostname: "web-0", Subdomain: "web",
					Containers:     []corev1.Container{{Name: "web", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}}},
					InitContainers: []corev1.Container{{Name: "proxy", RestartPolicy: &always}}},
				Status: corev1.PodStatus{
					Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on memory",
					PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
					Conditions:            []corev1.PodCondition{ready, doomed},
					ContainerStatuses:     []corev1.ContainerStatus{{Name: "web", RestartCount: 3}, {Name: "ended", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: metav1.Unix(1, 0)}}}},
					InitContainerStatuses: []corev1.ContainerStatus{{Name: "proxy", RestartCount: 4}},
				}},
		},
		"of a pod's containers, what it is charged by stays": {
			&corev1.Pod{
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{
						{Name: "web", Image: "web:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}},
						{Name: "log", Image: "log:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("2")}}},
					},
					PriorityClassName: "high", ActiveDeadlineSeconds: new(int64(60)), SchedulerName: "default-scheduler",
					Overhead: corev1.ResourceList{"cpu": resource.MustParse("1")},
				},
				Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable},
			},
			&corev1.Pod{
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{
						{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("3")}, Limits: corev1.ResourceList{}}},
					},
					PriorityClassName: "high", ActiveDeadlineSeconds: new(int64(60)),
					Overhead: corev1.ResourceList{"cpu": resource.MustParse("1")},
				},
				Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable},
			},
		},
		"of a pod that is not bound, the node for which it is meant stays": {
			&corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}, PodAffinity: &corev1.PodAffinity{}}}},
			&corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}},
		},
		"of a pod that is bound, it goes": {
			&corev1.Pod{Spec: corev1.PodSpec{NodeName: "node", Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}},
			&corev1.Pod{Spec: corev1.PodSpec{NodeName: "node"}},
		},
		"of a node, what it holds goes, but for how much CPU it has for pods": {
			&corev1.Node{ObjectMeta: managed, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "gpu"}}, ProviderID: "cloud://1"},
				Status: corev1.NodeStatus{
					Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady}}, Addresses: []corev1.NodeAddress{{Address: "10.0.0.1"}},
					Images:      []corev1.ContainerImage{{SizeBytes: 1}},
					Capacity:    corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("16Gi")},
					Allocatable: corev1.ResourceList{"cpu": resource.MustParse("7"), "memory": resource.MustParse("15Gi")},
				}},
			&corev1.Node{ObjectMeta: kept, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "gpu"}}, ProviderID: "cloud://1"},
				Status: corev1.NodeStatus{
					Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady}}, Addresses: []corev1.NodeAddress{{Address: "10.0.0.1"}},
					Allocatable: corev1.ResourceList{"cpu": resource.MustParse("7")},
				}},
		},
		"of a node that says nothing of it, nothing is said": {
			&corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"memory": resource.MustParse("15Gi")}}},
			&corev1.Node{},
		},
		"of a pod's tolerations, those stay by which it may be evicted later": {
			&corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{
				{Key: "new"}, {Key: "old", Effect: corev1.TaintEffectNoSchedule}, {Key: "now", Effect: corev1.TaintEffectNoExecute},
			}}},
			&corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{
				{Key: "new"}, {Key: "now", Effect: corev1.TaintEffectNoExecute},
			}}},
		},
		"of a Job's pod, all conditions stay": {
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"batch.kubernetes.io/job-tracking"}},
				Spec:       corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data"}}},
				Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "ConfigIssue", Status: corev1.ConditionTrue}}},
			},
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"batch.kubernetes.io/job-tracking"}},
				Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "ConfigIssue", Status: corev1.ConditionTrue}}},
			},
		},
		"a Secret for others is a name": {
			&corev1.Secret{ObjectMeta: managed, Type: corev1.SecretTypeOpaque, Data: password},
			&corev1.Secret{ObjectMeta: kept, Type: corev1.SecretTypeOpaque},
		},
		"the token of a ServiceAccount stays": {
			&corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, Data: password},
			&corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, Data: password},
		},
		"a bootstrap token stays": {
			&corev1.Secret{Type: corev1.SecretTypeBootstrapToken, Data: password},
			&corev1.Secret{Type: corev1.SecretTypeBootstrapToken, Data: password},
		},
		"of a pod, the names of Secrets stay": {
			&corev1.Pod{Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
				Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "builder-token"}}}}}},
			&corev1.Pod{Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "builder-token"}, {Name: "registry"}}}},
		},
		"of Endpoints and slices, who has written them stays": {
			&discoveryv1.EndpointSlice{ObjectMeta: managed},
			&discoveryv1.EndpointSlice{ObjectMeta: managed},
		},
		"what is written as a whole stays": {
			&corev1.ReplicationController{ObjectMeta: managed, Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{}}},
			&corev1.ReplicationController{ObjectMeta: kept, Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{}}},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for range 2 { // an object may come a second time
				trimmed, err := trim(test.seen)
				require.NoError(t, err)
				assert.True(t, equality.Semantic.DeepEqual(test.want, trimmed), "%v\nhas become\n%v\nand should be\n%v", test.seen, trimmed, test.want)
			}
		})
	}
}

func TestWhatAnInformerLeavesForADeletedObjectIsNotTouched(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node"}}
	trimmed, err := trimForAll()(cache.DeletedFinalStateUnknown{Key: "default/web", Obj: pod})
	require.NoError(t, err)
	assert.Equal(t, cache.DeletedFinalStateUnknown{Key: "default/web", Obj: pod}, trimmed)
}

// What a loop reads is told by what it declares alone: its tests run with objects that were trimmed by that. Here is
// shown that what others declare takes nothing away from it.
func TestWhatIsTrimmedForAllHasWhatEachLoopReads(t *testing.T) {
	t.Parallel()
	filler := randfill.NewWithSeed(1).NilChance(.2).NumElements(0, 3).MaxDepth(12)
	filler.Funcs(func(q *resource.Quantity, c randfill.Continue) {
		*q = *resource.NewQuantity(c.Int63n(1000), resource.DecimalSI)
	},
		func(raw *metav1.FieldsV1, c randfill.Continue) { raw.SetRawString(`{"f:spec":{}}`) })
	of := func(d *ControllerDescriptor, obj runtime.Object) runtime.Object {
		trimmed, err := controller.Trim(d.reads...)(obj)
		require.NoError(t, err)
		return trimmed.(runtime.Object)
	}
	forAll := trimForAll()
	for range 50 {
		for _, obj := range []runtime.Object{&corev1.Pod{}, &corev1.Node{}, &corev1.Secret{}, &corev1.Endpoints{}, &discoveryv1.EndpointSlice{}, &batchv1.CronJob{}} {
			filler.Fill(obj)
			for _, d := range NewControllerDescriptors() {
				all, err := forAll(obj.DeepCopyObject())
				require.NoError(t, err)
				want, got := of(d, obj.DeepCopyObject()), of(d, all.(runtime.Object))
				require.True(t, equality.Semantic.DeepEqual(want, got), "of\n%v\n%s reads\n%v\nand is shown\n%v", obj, d.name, want, got)
			}
		}
	}
}

func TestWhoReadsWhatIsTrimmedSaysWhat(t *testing.T) {
	t.Parallel()
	trimmed := []reflect.Type{reflect.TypeFor[*corev1.Pod](), reflect.TypeFor[*corev1.Node](), reflect.TypeFor[*corev1.Secret]()}
	metadata := map[string]string{
		"garbage-collector-controller":                   "*v1.Pod",    // reads owners
		"daemonset-controller":                           "*v1.Node",   // reads labels and the spec
		"node-ipam-controller":                           "*v1.Node",   // reads the spec
		"taint-eviction-controller":                      "*v1.Node",   // reads the spec
		"ttl-controller":                                 "*v1.Node",   // reads an annotation
		"legacy-serviceaccount-token-cleaner-controller": "*v1.Secret", // reads labels and the type
	}
	for _, d := range NewControllerDescriptors() {
		if d.isCloudProvider {
			continue // without a cloud it is not built
		}
		c := testContext()
		defaults, err := config.NewComponentConfig()
		require.NoError(t, err)
		c.ComponentConfig = *defaults
		c.ComponentConfig.KubeCloudShared.AllocateNodeCIDRs = true
		c.ComponentConfig.KubeCloudShared.ClusterCIDR = "10.9.0.0/20"
		ended, cancel := context.WithCancel(t.Context())
		built, err := d.constructor(ended, c, fake.NewClientset())
		require.NoError(t, err, d.name)
		cancel()
		if built != nil {
			built.Run(ended, 0) // ends what the constructor has begun
		}
		c.InformerFactory.Start(ended.Done())
		for asked := range c.InformerFactory.WaitForCacheSync(ended.Done()) {
			says := slices.ContainsFunc(d.reads, func(k *controller.Keep) bool { return k.Of == asked })
			if slices.Contains(trimmed, asked) && metadata[d.name] != asked.String() {
				assert.True(t, says, "%s watches %s and does not say what it reads of it", d.name, asked)
			}
		}
		c.InformerFactory.Shutdown()
	}
}
