package namespace

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// conditions are those that the loop keeps, in their order, with the reasons
// and the words that people look for and programs parse. A condition is False
// and has the message that is here, or it is True, and what the message is then
// is a matter of the namespace.
var conditions = []struct {
	kind                corev1.NamespaceConditionType
	whenTrue, whenFalse string // reasons
	message             string
}{
	{corev1.NamespaceDeletionDiscoveryFailure, "DiscoveryFailed", "ResourcesDiscovered",
		"All resources successfully discovered"},
	{corev1.NamespaceDeletionGVParsingFailure, "GroupVersionParsingFailed", "ParsedGroupVersions",
		"All legacy kube types successfully parsed"},
	{corev1.NamespaceDeletionContentFailure, "ContentDeletionFailed", "ContentDeleted",
		"All content successfully deleted, may be waiting on finalization"},
	{corev1.NamespaceContentRemaining, "SomeResourcesRemain", "ContentRemoved",
		"All content successfully removed"},
	{corev1.NamespaceFinalizersRemaining, "SomeFinalizersRemain", "ContentHasNoFinalizers",
		"All content-preserving finalizers finished"},
}

// problems returns the message of each condition that is True.
func problems(left remains) map[corev1.NamespaceConditionType]string {
	messages := map[corev1.NamespaceConditionType]string{}
	if left.discovery != nil {
		messages[corev1.NamespaceDeletionDiscoveryFailure] = discoveryMessage(left.discovery)
	}
	if left.parsing != nil {
		messages[corev1.NamespaceDeletionGVParsingFailure] = left.parsing.Error()
	}
	var failed, resources, finalizers []string
	for _, err := range left.failures {
		failed = append(failed, err.Error())
	}
	held := map[string]int{}
	for resource, objects := range left.objects {
		resources = append(resources, fmt.Sprintf("%s.%s has %d resource instances", resource.Resource, resource.Group, len(objects)))
		for _, object := range objects {
			for _, finalizer := range object.Finalizers {
				held[finalizer]++
			}
		}
	}
	for finalizer, n := range held {
		finalizers = append(finalizers, fmt.Sprintf("%s in %d resource instances", finalizer, n))
	}
	enumerate := func(kind corev1.NamespaceConditionType, introduction string, items []string) {
		if len(items) > 0 {
			slices.Sort(items)
			messages[kind] = introduction + ": " + strings.Join(items, ", ")
		}
	}
	enumerate(corev1.NamespaceDeletionContentFailure, fmt.Sprintf("Failed to delete all resource types, %d remaining", len(failed)), failed)
	enumerate(corev1.NamespaceContentRemaining, "Some resources are remaining", resources)
	enumerate(corev1.NamespaceFinalizersRemaining, "Some content in the namespace has finalizers remaining", finalizers)
	return messages
}

// discoveryMessage says how many groups could not be discovered, and why.
func discoveryMessage(err error) string {
	var groups *discovery.ErrGroupDiscoveryFailed
	if errors.As(err, &groups) {
		return fmt.Sprintf("Discovery failed for some groups, %d failing: %v", len(groups.Groups), err)
	}
	return err.Error()
}

// setStatus makes the status say that the namespace is going and what the
// problems are, by the kind of condition, and tells whether that is news.
func setStatus(status *corev1.NamespaceStatus, problems map[corev1.NamespaceConditionType]string, now metav1.Time) bool {
	changed := status.Phase != corev1.NamespaceTerminating
	status.Phase = corev1.NamespaceTerminating
	for _, c := range conditions {
		want := corev1.NamespaceCondition{Type: c.kind, Status: corev1.ConditionFalse, LastTransitionTime: now,
			Reason: c.whenFalse, Message: c.message}
		if message, found := problems[c.kind]; found {
			want.Status, want.Reason, want.Message = corev1.ConditionTrue, c.whenTrue, message
		}
		i := slices.IndexFunc(status.Conditions, func(old corev1.NamespaceCondition) bool { return old.Type == c.kind })
		if i < 0 {
			status.Conditions = append(status.Conditions, want)
			changed = true
			continue
		}
		old := &status.Conditions[i]
		if old.Status == want.Status {
			want.LastTransitionTime = old.LastTransitionTime
		}
		changed = changed || *old != want
		*old = want
	}
	return changed
}
