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
)

// inWords says what a plan is to do.
func (p plan) inWords() string {
	var steps []string
	if p.status {
		steps = append(steps, "write the status")
	}
	if p.finalize {
		steps = append(steps, "let go")
	}
	if p.again > 0 {
		steps = append(steps, fmt.Sprintf("look again in %s", p.again))
	}
	if p.failure != nil {
		steps = append(steps, "fail")
	}
	if steps == nil {
		return "do nothing"
	}
	return strings.Join(steps, "; ")
}

func TestDecide(t *testing.T) {
	t.Parallel()
	ledger := object("ledger", going, heldBy("example.com/audit"))
	with := func(left remains, edit func(*remains)) remains {
		edit(&left)
		return left
	}
	told := func(left remains) remains {
		setStatus(&left.namespace.Status, problems(left), metav1.NewTime(time.Unix(1500, 0)))
		return left
	}
	for _, test := range []struct {
		behaviour, situation string
		left                 remains
		want                 string
	}{
		{"an empty namespace is let go", "nothing is left", nothing(5 * time.Second), "write the status; let go"},
		{"while objects may appear an empty namespace stays", "nothing is left, and the rest has not been looked at",
			nothing(2 * time.Second), "do nothing"},
		{"while objects may appear nothing is planned", "a pod is left after two seconds",
			nothing(2*time.Second).with(pods, object("a", graceful(30))), "do nothing"},
		{"while objects may appear a failure is left to the next look", "a pod could not be deleted, and is left after two seconds",
			with(nothing(2*time.Second).with(pods, object("a")), func(l *remains) { l.failures = []error{errors.New("not now")} }), "do nothing"},
		{"what is left is said and waited for", "a ConfigMap has a finalizer",
			nothing(20*time.Second).with(configMaps, ledger), "write the status; look again in 5s"},
		{"the time before the last object was asked is not waiting", "a ConfigMap has a finalizer, and was asked eight seconds ago",
			with(nothing(20*time.Second).with(configMaps, ledger), func(l *remains) { l.waited = 8 * time.Second }),
			"write the status; look again in 2s"},
		{"what has been said is not said again", "a ConfigMap has a finalizer, and the status says so",
			told(nothing(20*time.Second).with(configMaps, ledger)), "look again in 5s"},
		{"a failure is said and tried again", "the Secrets could not be listed",
			with(nothing(time.Minute), func(l *remains) { l.failures = []error{errors.New("not now")} }), "write the status; fail"},
		{"a failure wins over waiting", "a ConfigMap has a finalizer, and the Secrets could not be listed",
			with(nothing(time.Minute).with(configMaps, ledger), func(l *remains) { l.failures = []error{errors.New("not now")} }),
			"write the status; fail"},
		{"an empty namespace is not let go while a group is unknown", "an aggregated API server does not answer",
			with(nothing(time.Minute), func(l *remains) { l.discovery = errors.New("no answer from metrics") }), "write the status; fail"},
		{"an empty namespace is not let go while a version cannot be read", "a group's version is a riddle",
			with(nothing(time.Minute), func(l *remains) { l.parsing = errors.New("a/b/c") }), "write the status; fail"},
		{"what stays without a reason is a failure", "a ConfigMap without a finalizer was deleted and is there",
			nothing(time.Minute).with(configMaps, object("a", going)), "write the status; fail"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, decide(test.left).inWords(), "%s; %s after the deletion", test.situation, test.left.elapsed)
		})
	}
	t.Run("what stays without a reason is told in the conditions", func(t *testing.T) {
		t.Parallel()
		p := decide(nothing(time.Minute).with(configMaps, object("a", going)))
		assert.Contains(t, inWords(p.namespace.Status.Conditions), "Failed to delete all resource types, 1 remaining: unexpected items still remain")
	})
	t.Run("what went wrong is in the failure", func(t *testing.T) {
		t.Parallel()
		p := decide(with(nothing(time.Minute), func(l *remains) {
			l.failures, l.discovery, l.parsing = []error{errors.New("no secrets")}, errors.New("no metrics"), errors.New("a/b/c")
		}))
		for _, text := range []string{"no secrets", "no metrics", "a/b/c"} {
			assert.ErrorContains(t, p.failure, text)
		}
	})
	t.Run("the namespace that was read is not changed", func(t *testing.T) {
		t.Parallel()
		left := nothing(time.Minute)
		decide(left)
		assert.Empty(t, left.namespace.Status.Conditions, "conditions of the namespace that was read")
	})
	t.Run("a plan says which namespace it is about", func(t *testing.T) {
		t.Parallel()
		for _, elapsed := range []time.Duration{0, time.Minute} {
			p := decide(nothing(elapsed))
			if assert.NotNil(t, p.namespace, "the namespace of the plan after %s", elapsed) {
				assert.Equal(t, "shop", p.namespace.Name, "the namespace of the plan after %s", elapsed)
			}
		}
	})
	t.Run("the conditions have the time of the look", func(t *testing.T) {
		t.Parallel()
		p := decide(nothing(time.Minute))
		for _, c := range p.namespace.Status.Conditions {
			assert.Equal(t, time.Unix(2000, 0), c.LastTransitionTime.Time, "last transition of %s", c.Type)
		}
		assert.Equal(t, corev1.NamespaceTerminating, p.namespace.Status.Phase)
	})
}
