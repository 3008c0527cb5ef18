package differential

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// step is something that happens on both sides. Its text can be read again.
type step struct {
	verb string
	args []int
}

func (s step) String() string {
	text := s.verb
	for _, arg := range s.args {
		text += " " + strconv.Itoa(arg)
	}
	return text
}

// verb is a kind of step.
type verb struct {
	name string
	// often is how often it is drawn, in relation to the others.
	often int
	// below are the bounds of the arguments.
	below []int
	do    func(w *world, args []int)
}

// settles is the verb that lets both managers come to rest, and compares.
const settles = "settle"

// Bounds of a rolling update, by number.
var (
	surges = []string{"1", "0", "25%", "2", "50%", "100%"}
	unavai = []string{"0", "1", "25%", "2", "50%", "100%"}
)

var users = []verb{
	{"create", 8, []int{9, len(surges), len(unavai)}, func(w *world, a []int) { w.createWeb(a[0], a[1], a[2]) }},
	{"scale", 10, []int{10}, func(w *world, a []int) { w.edit(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(a[0])) }) }},
	{"image", 12, []int{5}, func(w *world, a []int) {
		w.edit(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = fmt.Sprint("web:v", a[0]) })
	}},
	{"pause", 4, []int{2}, func(w *world, a []int) { w.edit(func(d *appsv1.Deployment) { d.Spec.Paused = a[0] == 1 }) }},
	{"rollback", 4, []int{4}, func(w *world, a []int) {
		w.edit(func(d *appsv1.Deployment) {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, appsv1.DeprecatedRollbackTo, strconv.Itoa(a[0]))
		})
	}},
	{"rolling", 4, []int{len(surges), len(unavai)}, func(w *world, a []int) {
		w.edit(func(d *appsv1.Deployment) { d.Spec.Strategy = rolling(a[0], a[1]) })
	}},
	{"recreate", 2, nil, func(w *world, _ []int) {
		w.edit(func(d *appsv1.Deployment) {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		})
	}},
	{"min-ready", 3, []int{12}, func(w *world, a []int) {
		w.edit(func(d *appsv1.Deployment) {
			d.Spec.MinReadySeconds = int32(a[0])
			d.Spec.ProgressDeadlineSeconds = new(max(*d.Spec.ProgressDeadlineSeconds, d.Spec.MinReadySeconds+1))
		})
	}},
	{"deadline", 3, []int{30}, func(w *world, a []int) {
		w.edit(func(d *appsv1.Deployment) {
			d.Spec.ProgressDeadlineSeconds = new(d.Spec.MinReadySeconds + 1 + int32(a[0]))
		})
	}},
	{"history", 3, []int{4}, func(w *world, a []int) {
		w.edit(func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = new(int32(a[0])) })
	}},
	{"annotate", 2, []int{3}, func(w *world, a []int) {
		w.edit(func(d *appsv1.Deployment) { metav1.SetMetaDataAnnotation(&d.ObjectMeta, "note", strconv.Itoa(a[0])) })
	}},
	{"delete", 1, []int{3}, func(w *world, a []int) { w.deleteWeb(a[0]) }},
	{"collect-garbage", 2, nil, func(w *world, _ []int) { w.collectGarbage() }},
	{"resize-set", 3, []int{4, 9}, func(w *world, a []int) {
		w.editReplicaSet(a[0], func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = new(int32(a[1])) })
	}},
	{"free-set", 1, []int{4}, func(w *world, a []int) {
		w.editReplicaSet(a[0], func(rs *appsv1.ReplicaSet) { rs.Labels["app"] = "free" })
	}},
	{"take-set", 2, []int{4}, func(w *world, a []int) {
		w.editReplicaSet(a[0], func(rs *appsv1.ReplicaSet) { rs.Labels["app"] = rs.Spec.Selector.MatchLabels["app"] })
	}},
	{"forget-size", 1, []int{4}, func(w *world, a []int) {
		w.editReplicaSet(a[0], func(rs *appsv1.ReplicaSet) { delete(rs.Annotations, "deployment.kubernetes.io/desired-replicas") })
	}},
	{"delete-set", 1, []int{4}, func(w *world, a []int) {
		if rs := w.replicaSet(a[0]); rs != nil {
			done(rs, w.replicaSets.Delete(rs.Name))
		}
	}},
	{"solo", 4, []int{9}, func(w *world, a []int) { w.scaleSolo(a[0]) }},
	{"solo-min-ready", 1, []int{9}, func(w *world, a []int) {
		if rs, err := w.replicaSets.Get("solo"); err == nil {
			rs.Spec.MinReadySeconds = int32(a[0])
			done(w.updateReplicaSet(rs, ""))
		}
	}},
}

var kubelets = []verb{
	{"start", 6, []int{12, 3}, func(w *world, a []int) { w.editPod(a[0], func(pod *corev1.Pod) { start(pod, a[1]) }) }},
	{"start-all", 14, []int{3}, func(w *world, a []int) {
		all := w.pods.List()
		sortByLooks(all)
		for i, pod := range all {
			w.changePod(pod, func(pod *corev1.Pod) { start(pod, (i+a[0])%3) })
		}
	}},
	{"bind", 2, []int{12, 3}, func(w *world, a []int) {
		w.editPod(a[0], func(pod *corev1.Pod) {
			if lives(pod) && pod.Spec.NodeName == "" {
				pod.Spec.NodeName = fmt.Sprint("node-", a[1])
			}
		})
	}},
	{"falter", 3, []int{12}, func(w *world, a []int) {
		w.editPod(a[0], func(pod *corev1.Pod) {
			if lives(pod) {
				setReady(pod, corev1.ConditionFalse)
			}
		})
	}},
	{"crash", 2, []int{12}, func(w *world, a []int) {
		w.editPod(a[0], func(pod *corev1.Pod) {
			if lives(pod) && pod.Spec.NodeName != "" {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: 1}}
			}
		})
	}},
	{"fail", 3, []int{12}, func(w *world, a []int) {
		w.editPod(a[0], func(pod *corev1.Pod) { fail(pod, corev1.PodFailed) })
	}},
	{"evict", 1, []int{12}, func(w *world, a []int) {
		w.editPod(a[0], func(pod *corev1.Pod) {
			fail(pod, corev1.PodFailed)
			pod.Status.Reason = "Evicted"
		})
	}},
	// Never by chance: nothing could be compared after it.
	{"reject", 0, []int{2}, func(w *world, a []int) { w.rejects = a[0] }},
	{"succeed", 1, []int{12}, func(w *world, a []int) {
		w.editPod(a[0], func(pod *corev1.Pod) { fail(pod, corev1.PodSucceeded) })
	}},
	{"end", 3, []int{12}, func(w *world, a []int) {
		if pod := w.pod(a[0]); pod != nil {
			w.end(pod)
		}
	}},
	{"end-all", 6, nil, func(w *world, _ []int) {
		for _, pod := range w.pods.List() {
			w.end(pod)
		}
	}},
	{"delete-pod", 4, []int{12}, func(w *world, a []int) {
		if pod := w.pod(a[0]); pod != nil {
			w.deletePod(pod)
		}
	}},
	{"kill-pod", 2, []int{12}, func(w *world, a []int) {
		if pod := w.pod(a[0]); pod != nil {
			w.removePod(pod)
		}
	}},
	{"free-pod", 2, []int{12}, func(w *world, a []int) { w.editPod(a[0], func(pod *corev1.Pod) { relabel(pod, "free") }) }},
	{"take-pod", 2, []int{12}, func(w *world, a []int) { w.editPod(a[0], func(pod *corev1.Pod) { relabel(pod, "web") }) }},
	{"cost", 2, []int{12, 5}, func(w *world, a []int) {
		w.editPod(a[0], func(pod *corev1.Pod) {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, corev1.PodDeletionCost, strconv.Itoa(a[1]-2))
		})
	}},
	{"stray-pod", 1, []int{4}, func(w *world, a []int) {
		if rs := w.replicaSet(a[0]); rs != nil {
			done(w.createPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "stray-", Labels: rs.Spec.Selector.MatchLabels}}))
		}
	}},
	{"lose-node", 1, []int{3}, func(w *world, a []int) {
		w.onNode(a[0], func(pod *corev1.Pod) {
			w.changePod(pod, func(pod *corev1.Pod) { setReady(pod, corev1.ConditionFalse) })
		})
	}},
	{"remove-node", 1, []int{3}, func(w *world, a []int) { w.onNode(a[0], w.removePod) }},
}

var surroundings = []verb{
	{"webhook", 2, []int{len(webhooks)}, func(w *world, a []int) { w.webhook = webhooks[a[0]] }},
	{"no-webhook", 4, nil, func(w *world, _ []int) { w.webhook = nothing }},
	{"quota", 1, []int{12}, func(w *world, a []int) { w.quota = a[0] }},
	{"no-quota", 2, nil, func(w *world, _ []int) { w.quota = -1 }},
	{"fault", 3, []int{len(faults), len(hitKinds)}, func(w *world, a []int) { w.fault = fault{faults[a[0]], hitKinds[a[1]]} }},
	{"wait", 6, []int{15}, func(_ *world, a []int) {}},
	{"wait-long", 1, []int{10}, func(_ *world, a []int) {}},
	{"restart", 2, []int{4}, func(w *world, a []int) { w.restart(a[0]) }},
	{"show-deployment", 4, nil, func(w *world, _ []int) { w.manager.deployments.CatchUp() }},
	{"show-sets", 4, []int{4}, func(w *world, a []int) { w.manager.replicaSets.Show(a[0]); w.manager.replicaSets.Tell(a[0]) }},
	{"show-pods", 4, []int{4}, func(w *world, a []int) { w.manager.pods.Show(a[0]) }},
	{"tell-pods", 4, []int{4}, func(w *world, a []int) { w.manager.pods.Tell(a[0]) }},
	{"relist-sets", 1, nil, func(w *world, _ []int) { w.manager.replicaSets.Relist(); w.manager.replicaSets.CatchUp() }},
	{"relist-pods", 1, nil, func(w *world, _ []int) { w.manager.pods.Relist() }},
	{"sync-deployment", 8, nil, func(w *world, _ []int) { w.syncDeployments() }},
	{"sync-set", 8, nil, func(w *world, _ []int) {
		w.manager.replicaSets.resync()
		w.syncSet()
	}},
	{settles, 40, nil, nil},
}

var vocabulary = slices.Concat(users, kubelets, surroundings)

// waits is how long a step lets time pass, on both sides at once.
func (s step) waits() time.Duration {
	switch s.verb {
	case "wait":
		return time.Duration(s.args[0]) * time.Second
	case "wait-long":
		return time.Duration(s.args[0]) * time.Minute
	}
	return 0
}

// do does the step in a world.
func (s step) do(w *world) {
	for _, verb := range vocabulary {
		if verb.name == s.verb && verb.do != nil {
			verb.do(w, s.args)
		}
	}
}

// draw returns a step by chance.
func draw(random *rand.Rand) step {
	total := 0
	for _, verb := range vocabulary {
		total += verb.often
	}
	n := random.IntN(total)
	for _, verb := range vocabulary {
		if n -= verb.often; n < 0 {
			s := step{verb: verb.name}
			for _, below := range verb.below {
				s.args = append(s.args, random.IntN(below))
			}
			return s
		}
	}
	panic("more than the total was drawn")
}

// parse reads steps, as they are printed.
func parse(text string) ([]step, error) {
	var steps []step
	for part := range strings.SplitSeq(text, ";") {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		i := slices.IndexFunc(vocabulary, func(v verb) bool { return v.name == words[0] })
		if i < 0 {
			return nil, fmt.Errorf("there is no step %q: labs/differential/steps.go lists them", words[0])
		}
		s := step{verb: words[0]}
		for _, word := range words[1:] {
			arg, err := strconv.Atoi(word)
			if err != nil || arg < 0 {
				return nil, fmt.Errorf("step %q: %q is no number", part, word)
			}
			s.args = append(s.args, arg)
		}
		if len(s.args) != len(vocabulary[i].below) {
			return nil, fmt.Errorf("step %q takes %d numbers", words[0], len(vocabulary[i].below))
		}
		steps = append(steps, s)
	}
	return steps, nil
}

func rolling(surge, unavailable int) appsv1.DeploymentStrategy {
	maxSurge, maxUnavailable := intstr.Parse(surges[surge]), intstr.Parse(unavai[unavailable])
	if surges[surge] == "0" && unavai[unavailable] == "0" {
		maxUnavailable = intstr.FromInt32(1) // the API server refuses that neither is allowed
	}
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &maxSurge, MaxUnavailable: &maxUnavailable},
	}
}

func template(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

func (w *world) createWeb(replicas, surge, unavailable int) {
	if w.web() != nil {
		return
	}
	done(w.deployments.Create(asStored(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Generation: 1, CreationTimestamp: metav1.Now()},
		Spec: appsv1.DeploymentSpec{
			Replicas:                new(int32(replicas)),
			Selector:                &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template:                template("web", "web:v0"),
			Strategy:                rolling(surge, unavailable),
			ProgressDeadlineSeconds: new(int32(600)),
			RevisionHistoryLimit:    new(int32(10)),
		},
	})))
}

// scaleSolo scales the ReplicaSet that no deployment has, or creates it.
func (w *world) scaleSolo(replicas int) {
	rs, err := w.replicaSets.Get("solo")
	if err == nil {
		rs.Spec.Replicas = new(int32(replicas))
		done(w.updateReplicaSet(rs, ""))
		return
	}
	labels := map[string]string{"app": "solo"}
	done(w.createReplicaSet(&appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "solo", Labels: labels},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: template("solo", "solo:v0"),
		},
	}))
}

// relabel gives a pod that has an app another one.
func relabel(pod *corev1.Pod, app string) {
	if pod.Labels["app"] != "solo" {
		pod.Labels["app"] = app
	}
}

// onNode changes the pods of a node.
func (w *world) onNode(node int, change func(pod *corev1.Pod)) {
	for _, pod := range w.pods.List() {
		if pod.Spec.NodeName == fmt.Sprint("node-", node) {
			change(pod)
		}
	}
}
