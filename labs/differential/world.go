package differential

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// world is a manager with its API, and all the others who use that.
type world struct {
	*server
	loops   loops
	manager *manager
	// settled are how the API was in the last settled states, the latest first.
	settled []moment
	// met are the names of the intended differences whose circumstances a loop has met since the last settled state.
	met map[string]bool
	// ever are the events that were recorded at some time.
	ever map[string]int
	// restless says that the manager did not come to rest.
	restless bool
}

func newWorld(loops loops) *world {
	w := &world{server: newServer(), loops: loops, met: map[string]bool{}, ever: map[string]int{}}
	w.settled = []moment{w.now()}
	w.manager = startManager(w.server, loops, w.client, w.now())
	return w
}

// restart has another process lead. Its caches show the API as it is, or as it was that many settled states ago.
func (w *world) restart(ago int) {
	w.manager.stop()
	w.fault, w.crashed = fault{}, false
	w.wroteDeployment, w.wroteReplicaSet = "", ""
	then := w.now()
	if ago > 0 {
		then = w.settled[min(ago, len(w.settled))-1]
	}
	w.manager = startManager(w.server, w.loops, w.client, then)
}

// enough is how many syncs a manager may need to come to rest. None needs a tenth of them that ever will.
const enough = 500

// rest shows the manager everything and lets it work until it has nothing more to do for now. The loop for ReplicaSets
// goes first, so that what the other one sees of them is up to date. Of a manager that was killed another takes the place.
func (w *world) rest() {
	for range enough {
		if w.crashed {
			w.restart(0)
		}
		w.manager.deployments.CatchUp()
		w.manager.replicaSets.CatchUp()
		w.manager.pods.CatchUp()
		if !w.syncSet() && !w.syncDeployment() {
			return
		}
	}
	w.restless = true
}

// syncSet has the loop for ReplicaSets sync with what the caches show, if it has anything to do.
func (w *world) syncSet() bool {
	if w.manager.replicaSetQueue.Len() > 0 {
		w.notice()
	}
	return w.manager.replicaSetQueue.sync()
}

// syncDeployment does the same with the loop for Deployments. It sees at least what it has written itself: without that
// kcm does not begin.
func (w *world) syncDeployment() bool {
	if w.manager.deploymentQueue.Len() > 0 {
		w.manager.deployments.showUpTo(w.wroteDeployment)
		w.manager.replicaSets.showUpTo(w.wroteReplicaSet)
		w.notice()
	}
	return w.manager.deploymentQueue.sync()
}

// syncDeployments has the loop for Deployments sync, whether there is news or not, until it has nothing more to do: one
// round of the original may be several of kcm's.
func (w *world) syncDeployments() {
	w.manager.deployments.resync()
	for again := true; again; {
		again = w.syncDeployment()
		w.manager.deployments.CatchUp()
		w.manager.replicaSets.CatchUp()
		again = again || w.manager.deploymentQueue.Len() > 0
	}
}

// next returns when the manager wants to work again, or the zero time.
func (w *world) next() time.Time {
	return earlier(w.manager.deploymentQueue.next(), w.manager.replicaSetQueue.next())
}

// failures returns how often syncs that are to be tried again have failed.
func (w *world) failures() int {
	return w.manager.deploymentQueue.allFailures() + w.manager.replicaSetQueue.allFailures()
}

// earlier returns the earlier of two times. The zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// patience is how long both are given to come to rest. In it, what fails is tried eight times.
const patience = time.Second

// settle lets both managers come to rest, at the same times. If one has something to do within a second after that, both
// are given that time, too, but not more than twice: as long after a deadline may kcm look whether it has passed.
func settle(worlds ...*world) {
	end := time.Now().Add(patience)
	for last := end.Add(2 * patience); ; {
		next := end.Add(2 * patience)
		for _, w := range worlds {
			w.rest()
			next = earlier(next, w.next())
		}
		restless := worlds[0].restless || worlds[1].restless
		if next.After(end.Add(patience)) || next.After(last) || restless {
			if until := deadlineOver(end, worlds); until.After(end) && !restless {
				end, last = until, until.Add(2*patience)
				continue
			}
			time.Sleep(time.Until(end.Truncate(time.Second).Add(3 * time.Second / 2)))
			return
		}
		time.Sleep(time.Until(next))
		if next.After(end) {
			end = next
		}
	}
}

// deadlineOver returns when both know that a deadline has passed that does so about then, or the zero time if none does. In
// twice the patience both will have looked.
func deadlineOver(then time.Time, worlds []*world) (over time.Time) {
	for _, w := range worlds {
		d := w.web()
		if d == nil {
			continue
		}
		for _, c := range d.Status.Conditions {
			passes := c.LastUpdateTime.Add(time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second)
			about := then.After(passes.Add(-patience)) && then.Before(passes.Add(2*patience))
			if c.Type == appsv1.DeploymentProgressing && about && passes.Add(2*patience).After(over) {
				over = passes.Add(2 * patience)
			}
		}
	}
	return over
}

// web returns the deployment, or nil.
func (w *world) web() *appsv1.Deployment {
	d, err := w.deployments.Get("web")
	if err != nil {
		return nil
	}
	return d
}

// edit is what a user does to the deployment, if there is one.
func (w *world) edit(change func(d *appsv1.Deployment)) {
	if d := w.web(); d != nil {
		change(d)
		done(w.updateDeployment(d, ""))
	}
}

// replicaSet returns the nth ReplicaSet, or nil if there is none.
func (w *world) replicaSet(n int) *appsv1.ReplicaSet {
	all := w.replicaSets.List()
	if len(all) == 0 {
		return nil
	}
	return all[n%len(all)]
}

// editReplicaSet is what somebody does to the nth ReplicaSet behind the deployment's back.
func (w *world) editReplicaSet(n int, change func(rs *appsv1.ReplicaSet)) {
	if rs := w.replicaSet(n); rs != nil {
		change(rs)
		done(w.updateReplicaSet(rs, ""))
	}
}

// pod returns the nth pod, or nil if there is none. Which one that is depends on what is to be seen of the pods and not on
// their names: those that are alike may have others on the other side.
func (w *world) pod(n int) *corev1.Pod {
	all := w.pods.List()
	if len(all) == 0 {
		return nil
	}
	sortByLooks(all)
	return all[n%len(all)]
}

// editPod changes the nth pod, if there is one.
func (w *world) editPod(n int, change func(pod *corev1.Pod)) {
	if pod := w.pod(n); pod != nil {
		w.changePod(pod, change)
	}
}

func (w *world) changePod(pod *corev1.Pod, change func(pod *corev1.Pod)) {
	change(pod)
	done(w.pods.Update(asStored(pod)))
}

// removePod removes a pod at once, as when its node is lost.
func (w *world) removePod(pod *corev1.Pod) { done(pod, w.pods.Delete(pod.Name)) }

// lives tells whether a pod is one that a kubelet runs or may run.
func lives(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded && pod.DeletionTimestamp == nil
}

// start has a pod be ready, on a node.
func start(pod *corev1.Pod, node int) {
	if !lives(pod) {
		return
	}
	if pod.Spec.NodeName == "" {
		pod.Spec.NodeName = fmt.Sprint("node-", node)
	}
	pod.Status.Phase = corev1.PodRunning
	setReady(pod, corev1.ConditionTrue)
}

// fail has a pod end, and the containers that it had.
func fail(pod *corev1.Pod, phase corev1.PodPhase) {
	pod.Status.Phase = phase
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: ended}}
}

func setReady(pod *corev1.Pod, ready corev1.ConditionStatus) {
	if len(pod.Status.Conditions) == 1 && pod.Status.Conditions[0].Status == ready {
		return
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}}
}

// end removes a pod whose deletion was asked for.
func (w *world) end(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		done(pod, w.pods.Delete(pod.Name))
	}
}

// collectGarbage removes what has lost its owner, and a deployment that waits for what it owns.
func (w *world) collectGarbage() {
	alive := map[string]bool{}
	if d := w.web(); d != nil && d.DeletionTimestamp == nil {
		alive[string(d.UID)] = true
	}
	for _, rs := range w.replicaSets.List() {
		if ref := metav1.GetControllerOf(rs); ref != nil && !alive[string(ref.UID)] {
			done(rs, w.replicaSets.Delete(rs.Name))
		} else {
			alive[string(rs.UID)] = true
		}
	}
	for _, pod := range w.pods.List() {
		if ref := metav1.GetControllerOf(pod); ref != nil && !alive[string(ref.UID)] {
			w.deletePod(pod)
		}
	}
	if d := w.web(); d != nil && d.DeletionTimestamp != nil {
		done(d, w.deployments.Delete(d.Name))
	}
}

// deleteWeb deletes the deployment: at once, after what it owns, or so that what it owns stays.
func (w *world) deleteWeb(how int) {
	d := w.web()
	switch {
	case d == nil:
	case how == 0:
		done(d, w.deployments.Delete(d.Name))
	case how == 1 && d.DeletionTimestamp == nil:
		d.DeletionTimestamp, d.Finalizers = &metav1.Time{Time: time.Now()}, []string{metav1.FinalizerDeleteDependents}
		d.Generation++
		done(w.deployments.Update(asStored(d)))
	case how == 2:
		done(d, w.deployments.Delete(d.Name))
		for _, rs := range w.replicaSets.List() {
			if metav1.IsControlledBy(rs, d) {
				rs.OwnerReferences = nil
				done(w.replicaSets.Update(rs))
			}
		}
	}
}
