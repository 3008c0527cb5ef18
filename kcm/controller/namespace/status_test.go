package namespace

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

func TestProblems(t *testing.T) {
	t.Parallel()
	message := func(left remains, kind corev1.NamespaceConditionType) string { return problems(left)[kind] }

	t.Run("what is left is counted by resource", func(t *testing.T) {
		t.Parallel()
		left := nothing(time.Minute).with(orders, object("1"), object("2")).with(configMaps, object("a"))
		assert.Equal(t, "Some resources are remaining: configmaps. has 1 resource instances, orders.shop.example.com has 2 resource instances",
			message(left, corev1.NamespaceContentRemaining))
	})
	t.Run("finalizers are counted by their name", func(t *testing.T) {
		t.Parallel()
		left := nothing(time.Minute).with(orders, object("1", heldBy("b", "a"))).with(configMaps, object("a", heldBy("a")))
		assert.Equal(t, "Some content in the namespace has finalizers remaining: a in 2 resource instances, b in 1 resource instances",
			message(left, corev1.NamespaceFinalizersRemaining))
	})
	t.Run("failures are counted and sorted", func(t *testing.T) {
		t.Parallel()
		left := nothing(time.Minute)
		left.failures = []error{errors.New("no secrets"), errors.New("no leases")}
		assert.Equal(t, "Failed to delete all resource types, 2 remaining: no leases, no secrets",
			message(left, corev1.NamespaceDeletionContentFailure))
	})
	t.Run("groups that could not be discovered are counted", func(t *testing.T) {
		t.Parallel()
		left := nothing(time.Minute)
		left.discovery = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{
			{Group: "metrics.example.com", Version: "v1"}: errors.New("no answer")}}
		assert.Equal(t, "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: metrics.example.com/v1: no answer",
			message(left, corev1.NamespaceDeletionDiscoveryFailure))
	})
	t.Run("any other failure of discovery is told as it is", func(t *testing.T) {
		t.Parallel()
		left := nothing(time.Minute)
		left.discovery = errors.New("no answer")
		assert.Equal(t, "no answer", message(left, corev1.NamespaceDeletionDiscoveryFailure))
	})
	t.Run("a version that cannot be read is told", func(t *testing.T) {
		t.Parallel()
		left := nothing(time.Minute)
		_, left.parsing = emptiable([]*metav1.APIResourceList{{GroupVersion: "a/b/c"}})
		assert.Equal(t, "unexpected GroupVersion string: a/b/c", message(left, corev1.NamespaceDeletionGVParsingFailure))
	})
	t.Run("an empty namespace has no problems", func(t *testing.T) {
		t.Parallel()
		assert.Empty(t, problems(nothing(time.Minute)))
	})
}

func TestSetStatus(t *testing.T) {
	t.Parallel()
	const left = corev1.NamespaceContentRemaining
	at := func(seconds int64) metav1.Time { return metav1.NewTime(time.Unix(seconds, 0)) }
	// status is one in which, at the time 100, one thing was left.
	status := func() *corev1.NamespaceStatus {
		s := &corev1.NamespaceStatus{}
		setStatus(s, map[corev1.NamespaceConditionType]string{left: "one"}, at(100))
		return s
	}
	of := func(s *corev1.NamespaceStatus, kind corev1.NamespaceConditionType) string {
		for _, c := range s.Conditions {
			if c.Type == kind {
				return fmt.Sprintf("%s since %d, %s: %s", c.Status, c.LastTransitionTime.Unix(), c.Reason, c.Message)
			}
		}
		return "there is no " + string(kind)
	}
	news := func(changed bool) string {
		if changed {
			return "news"
		}
		return "no news"
	}

	t.Run("a status without conditions gets all five", func(t *testing.T) {
		t.Parallel()
		s := &corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}
		assert.Equal(t, "news", news(setStatus(s, nil, at(100))))
		var seen []string
		for _, c := range s.Conditions {
			seen = append(seen, fmt.Sprintf("%s=%s", c.Type, c.Status))
		}
		assert.Equal(t, "NamespaceDeletionDiscoveryFailure=False NamespaceDeletionGroupVersionParsingFailure=False "+
			"NamespaceDeletionContentFailure=False NamespaceContentRemaining=False NamespaceFinalizersRemaining=False",
			strings.Join(seen, " "))
	})
	t.Run("a condition without a problem has the words for that", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "False since 100, ContentHasNoFinalizers: All content-preserving finalizers finished",
			of(status(), corev1.NamespaceFinalizersRemaining))
	})
	t.Run("a condition with a problem has its message", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "True since 100, SomeResourcesRemain: one", of(status(), left))
	})
	t.Run("another message is news, and no transition", func(t *testing.T) {
		t.Parallel()
		s := status()
		assert.Equal(t, "news", news(setStatus(s, map[corev1.NamespaceConditionType]string{left: "two"}, at(200))))
		assert.Equal(t, "True since 100, SomeResourcesRemain: two", of(s, left), "the message has changed at 200")
	})
	t.Run("a problem that is solved is a transition", func(t *testing.T) {
		t.Parallel()
		s := status()
		assert.Equal(t, "news", news(setStatus(s, nil, at(200))))
		assert.Equal(t, "False since 200, ContentRemoved: All content successfully removed", of(s, left), "solved at 200")
	})
	t.Run("a problem that comes is a transition", func(t *testing.T) {
		t.Parallel()
		s := status()
		setStatus(s, nil, at(200))
		assert.Equal(t, "news", news(setStatus(s, map[corev1.NamespaceConditionType]string{left: "two"}, at(300))))
		assert.Equal(t, "True since 300, SomeResourcesRemain: two", of(s, left), "solved at 200, and there again at 300")
	})
	t.Run("the same once more is no news", func(t *testing.T) {
		t.Parallel()
		s := status()
		assert.Equal(t, "no news", news(setStatus(s, map[corev1.NamespaceConditionType]string{left: "one"}, at(200))))
		assert.Equal(t, "True since 100, SomeResourcesRemain: one", of(s, left))
	})
	t.Run("a condition of somebody else stays", func(t *testing.T) {
		t.Parallel()
		s := &corev1.NamespaceStatus{Conditions: []corev1.NamespaceCondition{{Type: "example.com/Audited", Status: "True", LastTransitionTime: at(50), Reason: "Yes", Message: "all of it"}}}
		setStatus(s, nil, at(100))
		assert.Equal(t, "True since 50, Yes: all of it", of(s, "example.com/Audited"))
		assert.Len(t, s.Conditions, 6)
	})
	t.Run("a phase that says nothing of the end is news", func(t *testing.T) {
		t.Parallel()
		s := status()
		s.Phase = corev1.NamespaceActive
		assert.Equal(t, "news", news(setStatus(s, map[corev1.NamespaceConditionType]string{left: "one"}, at(200))))
		assert.Equal(t, corev1.NamespaceTerminating, s.Phase)
	})
}
