package resourcequota

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

// isUncounted tells whether the API server goes by other limits than those that
// a quota has, or knows no sum of something that can be counted. By limits that
// are not in the status it refuses nothing, and by those without a sum everything.
func isUncounted(quota *corev1.ResourceQuota) bool {
	if !equality.Semantic.DeepEqual(quota.Spec.Hard, quota.Status.Hard) {
		return true
	}
	for name := range quota.Spec.Hard {
		_, counted := quota.Status.Used[name]
		if _, countable := userOf(name); countable && !counted {
			return true
		}
	}
	return false
}

// observe returns the sum of each name that a quota limits and that can be
// counted. It is not ready while informers begin to show what uses it.
func (c *Controller) observe(quota *corev1.ResourceQuota) (sums corev1.ResourceList, ready bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sums = corev1.ResourceList{}
	byMonitor := map[*monitor]corev1.ResourceList{}
	for name := range quota.Spec.Hard {
		user, countable := userOf(name)
		m, begun := c.monitors[user]
		switch {
		case !countable:
		case !begun || m != nil && !m.settled:
			return nil, false
		case m != nil && m.synced():
			if byMonitor[m] == nil {
				byMonitor[m] = corev1.ResourceList{}
			}
			byMonitor[m][name] = resource.Quantity{Format: resource.DecimalSI}
		}
	}
	for m, sum := range byMonitor {
		m.tally.add(sum, quota)
		for name, total := range sum {
			sums[name] = total
		}
	}
	return sums, true
}

// decide returns the status that a quota is to have, and whether that has to be
// written. The limits are those of the spec. A limit whose sum is not known keeps
// the one that it has, if any: it is not taken for zero.
func decide(quota *corev1.ResourceQuota, sums corev1.ResourceList) (status corev1.ResourceQuotaStatus, write bool) {
	status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard.DeepCopy(), Used: corev1.ResourceList{}}
	for name := range quota.Spec.Hard {
		if sum, ok := sums[name]; ok {
			status.Used[name] = sum
		} else if sum, ok := quota.Status.Used[name]; ok {
			status.Used[name] = sum
		}
	}
	return status, !equality.Semantic.DeepEqual(status, quota.Status)
}
