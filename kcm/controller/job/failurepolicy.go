package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// judgement is what a Job's pod failure policy says of a pod that has failed.
type judgement struct {
	// action is empty if no rule is about the pod. It counts then.
	action batchv1.PodFailurePolicyAction
	// why says which rule it was, for the Job's user.
	why string
}

// counts tells whether the failure counts towards the Job's limits.
func (j judgement) counts() bool { return j.action != batchv1.PodFailurePolicyActionIgnore }

// failsJob tells whether the Job fails with the pod.
func (j judgement) failsJob() bool { return j.action == batchv1.PodFailurePolicyActionFailJob }

// judge returns what the policy says of a pod that has failed, or fails with its
// Job.
func judge(policy *batchv1.PodFailurePolicy, pod *corev1.Pod) judgement {
	if policy == nil {
		return judgement{}
	}
	for i, rule := range policy.Rules {
		what := matchExitCode(rule.OnExitCodes, pod)
		if rule.OnExitCodes == nil {
			what = matchCondition(rule.OnPodConditions, pod)
		}
		if what != "" {
			return judgement{rule.Action, fmt.Sprintf("%s matching %s rule at index %d", what, rule.Action, i)}
		}
	}
	return judgement{}
}

// matchExitCode returns what is said of the container because of which the
// requirement is met, or "" if it is not.
func matchExitCode(required *batchv1.PodFailurePolicyOnExitCodesRequirement, pod *corev1.Pod) string {
	if required == nil {
		return ""
	}
	for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if c.State.Terminated == nil || required.ContainerName != nil && *required.ContainerName != c.Name {
			continue
		}
		code := c.State.Terminated.ExitCode
		wanted := required.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn
		if code != 0 && slices.Contains(required.Values, code) == wanted {
			return fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d", c.Name, pod.Namespace, pod.Name, code)
		}
	}
	return ""
}

// podConditions keeps all conditions of a pod that belongs to a Job, or did and is not
// counted yet: the policy may be about any.
var podConditions = controller.KeepOf(func(kept, whole *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(whole)
	if owner != nil && owner.Kind == kind.Kind || hasFinalizer(whole) {
		kept.Status.Conditions = whole.Status.Conditions
	}
})

// matchCondition returns what is said of the first condition that is as one of
// the patterns, or "".
func matchCondition(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if slices.Contains(patterns, batchv1.PodFailurePolicyOnPodConditionsPattern{Type: c.Type, Status: c.Status}) {
			return fmt.Sprintf("Pod %s/%s has condition %s", pod.Namespace, pod.Name, c.Type)
		}
	}
	return ""
}
