package resourcequota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kcm-book/kcm-book/kcm/controller"
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
// counted, and by how much the status may be lowered. It is not ready while
// informers begin to show what uses it.
func (c *Controller) observe(quota *corev1.ResourceQuota) (sums, freed corev1.ResourceList, ready bool) {
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
			return nil, nil, false
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
	isLate := func(name corev1.ResourceName, version string) bool {
		user, _ := userOf(name)
		return controller.IsOlder(c.monitors[user].store.LastStoreSyncResourceVersion(), version)
	}
	freed, wait := c.ledger(quota).settle(quota, sums, isLate, time.Now())
	if wait > 0 {
		c.add(quota, wait)
	}
	return sums, freed, true
}

// decide returns the status that a quota is to have, and whether it has to be
// written. sums has what objects use under each name that can be counted now, and
// freed what the status may still have of objects that are known to have gone, or
// never to have come.
func decide(quota *corev1.ResourceQuota, sums, freed corev1.ResourceList) (status corev1.ResourceQuotaStatus, write bool) {
	status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard.DeepCopy(), Used: corev1.ResourceList{}}
	for name := range quota.Spec.Hard {
		sum, counted := sums[name]
		used, told := quota.Status.Used[name]
		least := used.DeepCopy()
		least.Sub(freed[name])
		switch {
		case counted && told && sum.Cmp(least) < 0:
			status.Used[name] = least
		case counted:
			status.Used[name] = sum
		case told:
			status.Used[name] = used
		}
	}
	return status, !equality.Semantic.DeepEqual(status, quota.Status)
}
