package daemon

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// What a change of a node costs beside DaemonSets that want other nodes.
func BenchmarkAChangedNode(b *testing.B) {
	for _, idle := range []int{100, 1000} {
		b.Run(fmt.Sprint(idle, " that want others"), func(b *testing.B) {
			var sets []*appsv1.DaemonSet
			for i := range idle {
				sets = append(sets, selectingBy(fmt.Sprint("on-tape-", i), map[string]string{"disk": "tape"}))
			}
			c := &Controller{setIndex: indexOf(b, sets...)}
			old, node := testNode("a"), taintedWith("gpu", corev1.TaintEffectNoSchedule)
			for b.Loop() {
				c.wakeForNode(old, node)
			}
		})
	}
}

// What it costs for each that is asked, and does not care.
func BenchmarkVerdictsWhereTaintsAreAsked(b *testing.B) {
	set, old, node := testSet(), testNode("a"), taintedWith(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	for b.Loop() {
		if d := demandsOf(set); d.verdictOn(old) != d.verdictOn(node) {
			b.Fatal("the verdict has changed")
		}
	}
}
