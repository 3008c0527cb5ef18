package cloudnodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// node returns a node that is Ready, or not, or of which nobody says ("").
func node(ready corev1.ConditionStatus, taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1"}, Spec: corev1.NodeSpec{Taints: taints}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}}
	if ready != "" {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: ready})
	}
	return n
}

// going has a finalizer hold a node that was deleted.
func going(n *corev1.Node) *corev1.Node {
	n.DeletionTimestamp, n.Finalizers = new(metav1.Now()), []string{"example.com/wait"}
	return n
}

// described says what there is to decide about, for who reads a failure.
func described(n *corev1.Node, m machine) string {
	ready := "nobody says whether it is Ready"
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			ready = "Ready is " + string(c.Status)
		}
	}
	var taints []string
	for _, t := range n.Spec.Taints {
		taints = append(taints, t.ToString())
	}
	if n.DeletionTimestamp != nil {
		ready += ", it is being deleted"
	}
	return fmt.Sprintf("a node, %s, taints [%s], machine %s", ready, strings.Join(taints, " "), m)
}

func TestWhatBecomesOfANode(t *testing.T) {
	t.Parallel()
	const yes, no, lost = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	shut := corev1.Taint{Key: "node.cloudprovider.kubernetes.io/shutdown", Effect: corev1.TaintEffectNoSchedule}
	valued := corev1.Taint{Key: shut.Key, Effect: shut.Effect, Value: "since Monday"}
	evicting := corev1.Taint{Key: shut.Key, Effect: corev1.TaintEffectNoExecute}
	other := corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoSchedule}
	for _, test := range []struct {
		name    string
		node    *corev1.Node
		machine machine
		want    action
	}{
		{"a node that is Ready is left alone", node(yes), unknown, leave},
		{"a node that is Ready is never deleted", node(yes), gone, leave},
		{"a node that is Ready again loses the taint", node(yes, other, shut), unknown, untaint},
		{"the taint goes whatever its value is", node(yes, valued), unknown, untaint},
		{"taints of others stay", node(yes, other), unknown, leave},
		{"a taint of its key with another effect is another's", node(yes, evicting), unknown, leave},
		{"a node that is not Ready, and whose machine is gone, is deleted", node(no), gone, remove},
		{"so is one that is not heard of any more", node(lost), gone, remove},
		{"so is one that was never heard of", node(""), gone, remove},
		{"so is one that has the taint", node(lost, shut), gone, remove},
		{"one that is being deleted is not deleted again", going(node(lost)), gone, leave},
		{"a node that is not Ready, and whose machine runs, is left alone", node(no), running, leave},
		{"a node whose machine runs keeps the taint until it is Ready", node(lost, shut), running, leave},
		{"a node whose machine is shut down gets the taint", node(lost, other), shutDown, taint},
		{"a node that was never heard of gets it, too", node(""), shutDown, taint},
		{"it gets the taint once", node(lost, shut), shutDown, leave},
		{"without an answer of the cloud nothing is deleted", node(lost), unknown, leave},
		{"without an answer of the cloud the taint stays", node(no, shut), unknown, leave},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, decide(test.node, test.machine), described(test.node, test.machine))
		})
	}
}

// answers is a cloud that says the same of each machine.
type answers struct {
	exists, shut       bool
	existsErr, shutErr error
	asked, askedShut   int
}

func (a *answers) InstanceExists(context.Context, *corev1.Node) (bool, error) {
	a.asked++
	return a.exists, a.existsErr
}

func (a *answers) InstanceShutdown(context.Context, *corev1.Node) (bool, error) {
	a.askedShut++
	return a.shut, a.shutErr
}

func TestWhatTheCloudSays(t *testing.T) {
	t.Parallel()
	silent := errors.New("the cloud does not answer")
	for _, test := range []struct {
		name  string
		ready corev1.ConditionStatus
		cloud answers
		want  string
	}{
		{"of a node that is Ready it is not asked", "True", answers{existsErr: silent}, "unknown, asked 0 times"},
		{"a machine that does not exist is gone, and nothing else is asked about it", "False", answers{shutErr: silent}, "gone, asked 1 times"},
		{"a machine that exists and is shut down is shut down", "Unknown", answers{exists: true, shut: true}, "shut down, asked 2 times"},
		{"a machine that exists and is not shut down runs", "", answers{exists: true}, "running, asked 2 times"},
		{"without an answer whether it exists nothing is known", "False", answers{existsErr: silent}, "unknown, asked 1 times, and the error is returned with the node"},
		{"an answer with an error is no answer", "False", answers{exists: true, existsErr: silent}, "unknown, asked 1 times, and the error is returned with the node"},
		{"without an answer whether it is shut down nothing is known", "False", answers{exists: true, shut: true, shutErr: silent}, "unknown, asked 2 times, and the error is returned with the node"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := node(test.ready)
			n.Name = "web-17"
			machine, err := (&Controller{cloud: &test.cloud}).observe(t.Context(), n)
			seen := fmt.Sprintf("%s, asked %d times", machine, test.cloud.asked+test.cloud.askedShut)
			if err != nil {
				assert.ErrorIs(t, err, silent)
				assert.ErrorContains(t, err, n.Name)
				seen += ", and the error is returned with the node"
			}
			assert.Equal(t, test.want, seen, described(n, "not known yet"))
		})
	}
}
