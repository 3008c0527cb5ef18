package daemon

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What a change of a node costs for each DaemonSet that does not care.
func BenchmarkVerdictsOnAChangedNode(b *testing.B) {
	set := asking(func(spec *corev1.PodSpec) { spec.NodeSelector = map[string]string{"disk": "tape"} })
	old, node := testNode("a"), taintedWith("gpu", corev1.TaintEffectNoSchedule)
	for b.Loop() {
		if d := demandsOf(set); d.verdictOn(old) != d.verdictOn(node) {
			b.Fatal("the verdict has changed")
		}
	}
}

func BenchmarkVerdictsWhereTaintsAreAsked(b *testing.B) {
	set, old, node := testSet(), testNode("a"), taintedWith(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	for b.Loop() {
		if d := demandsOf(set); d.verdictOn(old) != d.verdictOn(node) {
			b.Fatal("the verdict has changed")
		}
	}
}
