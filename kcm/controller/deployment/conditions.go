package deployment

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of the Available condition.
const (
	reasonAvailable   = "MinimumReplicasAvailable"
	reasonUnavailable = "MinimumReplicasUnavailable"
)

// Reasons of the Progressing condition.
const (
	reasonNewReplicaSet      = "NewReplicaSetCreated"
	reasonFoundNewReplicaSet = "FoundNewReplicaSet"
	reasonReplicaSetUpdated  = "ReplicaSetUpdated"
	reasonRolledOut          = "NewReplicaSetAvailable"
	reasonCreateFailed       = "ReplicaSetCreateError"
	reasonTemplateChanged    = "ReplicaSetTemplateChanged" // the original has no such
	reasonDeadlineExceeded   = "ProgressDeadlineExceeded"
	reasonPaused             = "DeploymentPaused"
	reasonResumed            = "DeploymentResumed"
)

// newCondition returns a condition that came about at the given time.
func newCondition(
	now time.Time,
	kind appsv1.DeploymentConditionType,
	status corev1.ConditionStatus,
	reason, message string,
) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{
		Type:               kind,
		Status:             status,
		Reason:             reason,
		Message:            message,
		LastUpdateTime:     metav1.NewTime(now),
		LastTransitionTime: metav1.NewTime(now),
	}
}

// findCondition returns a copy of the condition of a type, or nil.
func findCondition(status appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for _, condition := range status.Conditions {
		if condition.Type == kind {
			return &condition
		}
	}
	return nil
}

// setCondition puts a condition in the place of the one of its type. One that
// says the same, with the same status and reason, keeps its times and its
// message. One whose status stays keeps the time of its last transition.
func setCondition(status *appsv1.DeploymentStatus, condition appsv1.DeploymentCondition) {
	current := findCondition(*status, condition.Type)
	if current != nil && current.Status == condition.Status {
		if current.Reason == condition.Reason {
			return
		}
		condition.LastTransitionTime = current.LastTransitionTime
	}
	replaceCondition(status, condition)
}

// replaceCondition puts a condition in the place of the one of its type, as it
// is.
func replaceCondition(status *appsv1.DeploymentStatus, condition appsv1.DeploymentCondition) {
	removeCondition(status, condition.Type)
	status.Conditions = append(status.Conditions, condition)
}

func removeCondition(status *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) {
	status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), func(c appsv1.DeploymentCondition) bool {
		return c.Type == kind
	})
}
