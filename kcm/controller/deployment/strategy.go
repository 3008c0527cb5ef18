package deployment

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// bounds returns how many pods above the wanted number, and how many
// unavailable ones below it, a rolling update may have. Percentages are of the
// wanted number. Where pods are wanted, the two always leave room for a step.
// Another strategy has neither.
func bounds(d *appsv1.Deployment) (maxSurge, maxUnavailable int32) {
	if d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return 0, 0
	}
	wanted := *d.Spec.Replicas
	maxSurge = portion(d.Spec.Strategy.RollingUpdate.MaxSurge, wanted, true)
	maxUnavailable = portion(d.Spec.Strategy.RollingUpdate.MaxUnavailable, wanted, false)
	if maxSurge == 0 && maxUnavailable == 0 {
		// The API refuses zero for both, but rounding can bring it about, and
		// then nothing could ever move. Taking a pod away first always works;
		// adding one first may not, for example because of a quota.
		maxUnavailable = 1
	}
	return maxSurge, min(maxUnavailable, wanted)
}

// portion returns a number as it is, and a percentage as that part of the
// wanted number, rounded up or down to whole pods. It is no more than can be counted.
func portion(of *intstr.IntOrString, wanted int32, roundUp bool) int32 {
	zero := intstr.FromInt32(0)
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(of, zero), int(wanted), roundUp)
	if err != nil {
		return 0 // the API lets only numbers and percentages pass
	}
	most := math.MaxInt32
	if roundUp { // a surge, which is counted together with the wanted pods
		most -= int(wanted)
	}
	if n < 0 || n > most { // less than nothing is what does not fit into n
		n = most
	}
	return int32(n)
}

// maxTotal is how many pods the deployment may have at a time.
func maxTotal(d *appsv1.Deployment) int32 {
	maxSurge, _ := bounds(d)
	return *d.Spec.Replicas + maxSurge
}

// minAvailable is how many available pods the deployment should always have.
func minAvailable(d *appsv1.Deployment) int32 {
	_, maxUnavailable := bounds(d)
	return *d.Spec.Replicas - maxUnavailable
}
