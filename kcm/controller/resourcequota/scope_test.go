package resourcequota

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func asked(scope corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) corev1.ScopedResourceSelectorRequirement {
	return corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: operator, Values: values}
}

const (
	priority   = corev1.ResourceQuotaScopePriorityClass
	attributes = corev1.ResourceQuotaScopeVolumeAttributesClass
	exists     = corev1.ScopeSelectorOpExists
	missing    = corev1.ScopeSelectorOpDoesNotExist
	in         = corev1.ScopeSelectorOpIn
	notIn      = corev1.ScopeSelectorOpNotIn
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, situation string
		object          scopes
		asked           []corev1.ScopedResourceSelectorRequirement
		want            bool
	}{
		{"a quota that asks for nothing counts everything", "an object that no scope applies to",
			nil, nil, true},
		{"a scope that an object is in exists", "a pod with a deadline is asked for one",
			scopes{corev1.ResourceQuotaScopeTerminating: present}, []corev1.ScopedResourceSelectorRequirement{asked(corev1.ResourceQuotaScopeTerminating, exists)}, true},
		{"a scope that an object is not in does not", "a pod without a deadline is asked for one",
			scopes{corev1.ResourceQuotaScopeNotTerminating: present}, []corev1.ScopedResourceSelectorRequirement{asked(corev1.ResourceQuotaScopeTerminating, exists)}, false},
		{"a scope that has values, and of which an object has none, does not exist", "a pod without a class is asked for one",
			scopes{priority: nil}, []corev1.ScopedResourceSelectorRequirement{asked(priority, exists)}, false},
		{"all that is asked has to be so", "a pod with the class high is asked for high and for a deadline",
			scopes{priority: {"high"}}, []corev1.ScopedResourceSelectorRequirement{asked(priority, in, "high"), asked(corev1.ResourceQuotaScopeTerminating, exists)}, false},
		{"one of the values that are asked for is enough", "a pod with the class high is asked for low or high",
			scopes{priority: {"high"}}, []corev1.ScopedResourceSelectorRequirement{asked(priority, in, "low", "high")}, true},
		{"another value is not", "a pod with the class high is asked for low",
			scopes{priority: {"high"}}, []corev1.ScopedResourceSelectorRequirement{asked(priority, in, "low")}, false},
		{"no value is none of those that are asked for", "a pod without a class is asked for high",
			scopes{priority: nil}, []corev1.ScopedResourceSelectorRequirement{asked(priority, in, "high")}, false},
		{"no value is other than all", "a pod without a class is asked for another than high",
			scopes{priority: nil}, []corev1.ScopedResourceSelectorRequirement{asked(priority, notIn, "high")}, true},
		{"a value that is ruled out is not asked for", "a pod with the class high is asked for another than high",
			scopes{priority: {"high"}}, []corev1.ScopedResourceSelectorRequirement{asked(priority, notIn, "high")}, false},
		{"that there is none can be asked for", "a pod without a class is asked for none",
			scopes{priority: nil}, []corev1.ScopedResourceSelectorRequirement{asked(priority, missing)}, true},
		{"and is not so where there is one", "a pod with a class is asked for none",
			scopes{priority: {"high"}}, []corev1.ScopedResourceSelectorRequirement{asked(priority, missing)}, false},
		{"of several values one has to be as asked", "a claim that goes from slow to fast is asked for fast",
			scopes{attributes: {"fast", "slow"}}, []corev1.ScopedResourceSelectorRequirement{asked(attributes, in, "fast")}, true},
		{"also where one asks for none of a list", "a claim that goes from slow to fast is asked for another than fast",
			scopes{attributes: {"fast", "slow"}}, []corev1.ScopedResourceSelectorRequirement{asked(attributes, notIn, "fast")}, true},
		{"of what a scope does not apply to nothing is true", "a pod is asked to have no class of volume attributes",
			scopes{priority: nil}, []corev1.ScopedResourceSelectorRequirement{asked(attributes, missing)}, false},
		{"of what a scope does not apply to it is not true either that it is none of a list", "a Service is asked for another priority than high",
			nil, []corev1.ScopedResourceSelectorRequirement{asked(priority, notIn, "high")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, c.object.match(c.asked), c.situation)
		})
	}
}

func TestAQuotaAsksForItsScopesAndItsSelector(t *testing.T) {
	t.Parallel()
	q := quota("limit", "pods=1", corev1.ResourceQuotaScopeTerminating)
	q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{asked(priority, in, "high")}}
	assert.Equal(t, []corev1.ScopedResourceSelectorRequirement{
		asked(corev1.ResourceQuotaScopeTerminating, exists), asked(priority, in, "high"),
	}, selectors(&q.Spec))
}

func TestObjectsAreInScopes(t *testing.T) {
	t.Parallel()
	affinity := func(term corev1.PodAffinityTerm) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: term}},
			}}
		}
	}
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want scopes
	}{
		{"a pod that asks for nothing makes the best effort, for ever", pod("web", asks("", "")),
			scopes{priority: nil, "NotTerminating": present, "BestEffort": present}},
		{"a request of zero asks for nothing", pod("web", asks("cpu=0 example.com/gpu=1", "")),
			scopes{priority: nil, "NotTerminating": present, "BestEffort": present}},
		{"a limit is enough to ask for something", pod("web", asks("", ""), asks("", "memory=1Gi")),
			scopes{priority: nil, "NotTerminating": present, "NotBestEffort": present}},
		{"what the API server has found out counts", with(pod("web", asks("", "")), func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSBurstable }),
			scopes{priority: nil, "NotTerminating": present, "NotBestEffort": present}},
		{"a pod with a deadline ends", with(pod("web"), func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To(int64(0)) }),
			scopes{priority: nil, "Terminating": present, "BestEffort": present}},
		{"a pod has one priority class", with(pod("web"), func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }),
			scopes{priority: {"high"}, "NotTerminating": present, "BestEffort": present}},
		{"a pod may keep away from pods elsewhere", with(pod("web"), affinity(corev1.PodAffinityTerm{Namespaces: []string{"there"}})),
			scopes{priority: nil, "NotTerminating": present, "BestEffort": present, "CrossNamespacePodAffinity": present}},
		{"or from those of all namespaces", with(pod("web"), affinity(corev1.PodAffinityTerm{NamespaceSelector: &metav1.LabelSelector{}})),
			scopes{priority: nil, "NotTerminating": present, "BestEffort": present, "CrossNamespacePodAffinity": present}},
		{"that is not so among those of its own", with(pod("web"), affinity(corev1.PodAffinityTerm{})),
			scopes{priority: nil, "NotTerminating": present, "BestEffort": present}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, podScopes(c.pod))
			trimmed, err := controller.Trim(Reads...)(c.pod.DeepCopy())
			require.NoError(t, err)
			assert.Equal(t, c.want, podScopes(trimmed.(*corev1.Pod)), "what the cache has of it")
		})
	}
	t.Run("a claim has the classes that it has, had and is to have", func(t *testing.T) {
		t.Parallel()
		claim := &corev1.PersistentVolumeClaim{}
		claim.Spec.VolumeAttributesClassName = ptr.To("slow")
		claim.Status.CurrentVolumeAttributesClassName = ptr.To("slow")
		claim.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "fast"}
		charge, _ := chargeOf(claim, volumeClaims, noon)
		assert.Equal(t, scopes{attributes: {"fast", "slow"}}, charge.scopes)
	})
}
