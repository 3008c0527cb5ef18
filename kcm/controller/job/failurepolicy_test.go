package job

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func onExit(action batchv1.PodFailurePolicyAction, operator batchv1.PodFailurePolicyOnExitCodesOperator, container *string, codes ...int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{ContainerName: container, Operator: operator, Values: codes}}
}

func onCondition(action batchv1.PodFailurePolicyAction, condition corev1.PodConditionType, status corev1.ConditionStatus) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: action, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: condition, Status: status}}}
}

func disrupted(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
}

func TestJudge(t *testing.T) {
	t.Parallel()
	t.Run("without a policy a failure counts", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, judgement{}, judge(nil, podOf(testJob(), "p", exit(42))), "what no policy says: exit code 42")
	})
	const in, notIn = batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn
	const failJob, ignore = batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore
	for _, test := range []struct {
		behaviour, situation string
		rules                []batchv1.PodFailurePolicyRule
		pod                  edits
		want                 judgement
	}{
		{"without a rule about it a failure counts", "exit code 1, and a rule about 42", []batchv1.PodFailurePolicyRule{onExit(failJob, in, nil, 42)}, edits{exit(1)}, judgement{}},
		{"a rule may name exit codes", "exit code 42, and a rule about 41 and 42", []batchv1.PodFailurePolicyRule{onExit(failJob, in, nil, 41, 42)}, edits{exit(42)},
			judgement{failJob, "Container main for pod shop/report-p failed with exit code 42 matching FailJob rule at index 0"}},
		{"a rule may name all exit codes but some", "exit code 1, and a rule about all but 42", []batchv1.PodFailurePolicyRule{onExit(ignore, notIn, nil, 42)}, edits{exit(1)},
			judgement{ignore, "Container main for pod shop/report-p failed with exit code 1 matching Ignore rule at index 0"}},
		{"an exit code of zero is no failure", "exit code 0, and a rule about all but 42", []batchv1.PodFailurePolicyRule{onExit(ignore, notIn, nil, 42)}, edits{exit(0)}, judgement{}},
		{"a rule may be about one container", "the container main has ended, and the rule is about another", []batchv1.PodFailurePolicyRule{onExit(failJob, in, new("other"), 42)}, edits{exit(42)}, judgement{}},
		{"a container that runs has no exit code", "the container main runs, and a rule is about all codes but 42", []batchv1.PodFailurePolicyRule{onExit(failJob, notIn, nil, 42)}, edits{going, func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main"}}
		}}, judgement{}},
		{"the first rule that is about it decides", "exit code 42, a rule about 41, and two about 42", []batchv1.PodFailurePolicyRule{onExit(failJob, in, nil, 41), onExit(ignore, in, nil, 42), onExit(failJob, in, nil, 42)}, edits{exit(42)},
			judgement{ignore, "Container main for pod shop/report-p failed with exit code 42 matching Ignore rule at index 1"}},
		{"a rule may be about a condition", "DisruptionTarget is True, and so the rule asks", []batchv1.PodFailurePolicyRule{onCondition(ignore, corev1.DisruptionTarget, corev1.ConditionTrue)}, edits{bad, disrupted},
			judgement{ignore, "Pod shop/report-p has condition DisruptionTarget matching Ignore rule at index 0"}},
		{"a rule may be about a condition that only its writer knows", "ConfigIssue is True, and so the rule asks", []batchv1.PodFailurePolicyRule{onCondition(failJob, "ConfigIssue", corev1.ConditionTrue)}, edits{bad, func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: "ConfigIssue", Status: corev1.ConditionTrue}}
		}}, judgement{failJob, "Pod shop/report-p has condition ConfigIssue matching FailJob rule at index 0"}},
		{"a rule about a condition is about no exit code", "the rule is about DisruptionTarget, and the pod ends with exit code 1", []batchv1.PodFailurePolicyRule{onCondition(ignore, corev1.DisruptionTarget, corev1.ConditionTrue)}, edits{exit(1), disrupted},
			judgement{ignore, "Pod shop/report-p has condition DisruptionTarget matching Ignore rule at index 0"}},
		{"containers come before init containers", "both have ended with exit code 42", []batchv1.PodFailurePolicyRule{onExit(ignore, in, nil, 42)}, edits{exit(42), func(pod *corev1.Pod) {
			pod.Status.InitContainerStatuses = slices.Clone(pod.Status.ContainerStatuses)
			pod.Status.InitContainerStatuses[0].Name = "init"
		}}, judgement{ignore, "Container main for pod shop/report-p failed with exit code 42 matching Ignore rule at index 0"}},
		{"an init container may be the reason", "the init container has ended with exit code 42", []batchv1.PodFailurePolicyRule{onExit(ignore, in, nil, 42)}, edits{exit(42), func(pod *corev1.Pod) {
			pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = pod.Status.ContainerStatuses, nil
			pod.Status.InitContainerStatuses[0].Name = "init"
		}}, judgement{ignore, "Container init for pod shop/report-p failed with exit code 42 matching Ignore rule at index 0"}},
		{"the condition's status has to be as asked for", "DisruptionTarget is True, and the rule asks for False", []batchv1.PodFailurePolicyRule{onCondition(ignore, corev1.DisruptionTarget, corev1.ConditionFalse)}, edits{bad, disrupted}, judgement{}},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			pod := podOf(testJob(), "p", test.pod...)
			_, err := controller.Trim(Reads...)(pod) // as it is in the cache
			require.NoError(t, err)
			assert.Equal(t, test.want, judge(&batchv1.PodFailurePolicy{Rules: test.rules}, pod), "what the policy says: %s", test.situation)
		})
	}
}
