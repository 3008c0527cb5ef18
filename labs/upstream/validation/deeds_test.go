package validation

//lint:file-ignore SA1019 Endpoints are deprecated, and two of the loops are about them.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// deed is what users, kubelets, nodes and time do.
type deed struct {
	what string
	do   func(c *cluster)
}

// deedsAbout are what may happen to objects of a kind. The first makes one.
var deedsAbout = map[string][]func(r *rand.Rand) deed{
	"Deployments": {someDeployment, someSet, ofSet, ofSet, ofSet, ofSet, ofPod, ofPod, startPods,
		startPods, strayPod("app", "web"),
		around("update deployments/status", "update replicasets", "create replicasets", "delete replicasets",
			"update replicasets/status")},
	"Jobs": {someJob, editJob, editJob, ofPod, ofPod, ofPod, ofPod, strayPod(batchv1.ControllerUidLabel, "uid-1"),
		around("update jobs/status")},
	"CronJobs": {someCronJob, editJob, ofPod, around("update cronjobs/status", "create jobs"), around()},
	"DaemonSets": {someDaemonSet, ofNode, ofNode, ofPod, ofPod, strayPod("app", "web"),
		around("update daemonsets/status", "create controllerrevisions")},
	"Services": {someService, someEndpoints, someSlice, ofNode, ofPod, ofPod, runNowhere,
		strayPod("app", "web"), strayPod("app", "web"),
		around("update endpoints", "create endpointslices")},
	"Nodes": {someNode, someNode, editNode, editNode, beat, beat, boundPod, boundPod, ofPod, someDaemonSet,
		around("patch nodes", "patch nodes/status", "patch pods/status")},
	"Accounts": {someNamespace, someBundle, someBundle, someToken, someToken, someToken, someAccount, someAccount,
		around("update configmaps", "create configmaps", "update secrets", "delete secrets", "update serviceaccounts",
			"create serviceaccounts")},
	"Certificates": {someRequest, someRequest, answerRequest, answerRequest, answerRequest, someRight,
		around("update certificatesigningrequests/approval", "update certificatesigningrequests/status",
			"delete certificatesigningrequests", "create subjectaccessreviews")},
	"Roles": {someRole, someRole, someRole, someRole, around("patch clusterroles")},
	"Tokens": {someInfo, someInfo, someJoinToken, someJoinToken, someOldToken, someOldToken, someAccount, someTracking,
		holdingPod, around("update configmaps", "patch secrets", "delete secrets")},
	"Quotas": {someQuota, someQuota, ofQuota, ofQuota, someClaim, someService, someSet, ofPod,
		ofPod, strayPod("app", "web"),
		around("update resourcequotas/status")},
}

// length is how many deeds a run has, besides those of the loops.
const length = 60

// randomDeeds draws deeds about a kind. After about every second the loops look.
func randomDeeds(about string, n uint64) []deed {
	r, some := rand.New(rand.NewPCG(n, 0)), deedsAbout[about]
	deeds := []deed{some[0](r)}
	for range length {
		if deeds = append(deeds, pick(r, some...)(r)); r.IntN(2) == 0 {
			deeds = append(deeds, pass(pick(r, 0, time.Second)))
		}
	}
	return deeds
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// orNil draws a value, or nil.
func orNil[T any](r *rand.Rand, values ...T) *T { return pick(r, nil, new(pick(r, values...))) }

// several draws less than a number of things.
func several[T any](r *rand.Rand, below int, one func() T) (all []T) {
	for range r.IntN(below) {
		all = append(all, one())
	}
	return all
}

// around draws what surrounds the loops that make some writes.
func around(writes ...string) func(r *rand.Rand) deed {
	return func(r *rand.Rand) deed {
		restart := deed{"another manager leads", func(c *cluster) { c.stop(); c.start() }}
		denied := pick(r, append(writes, "", "patch pods", "create pods", "delete pods")...)
		return pick(r, pass(pick(r, time.Second, 10*time.Second, 2*time.Minute)), deny(denied), deny(""), restart)
	}
}

func pass(period time.Duration) deed {
	return deed{fmt.Sprintf("the loops look for %v", period), func(c *cluster) { c.run(period) }}
}

func deny(what string) deed {
	return deed{fmt.Sprintf("denied is %q", what), func(c *cluster) { c.denied = what }}
}

// put has a user write an object in the place of the one that is there.
func put(obj object) deed {
	return deed{fmt.Sprintf("put %s %s", resourceOf(obj).Resource, done(json.Marshal(obj))), func(c *cluster) {
		obj.SetUID("")
		if there, err := c.Tracker().Get(resourceOf(obj), obj.GetNamespace(), obj.GetName()); err == nil {
			obj.SetUID(there.(object).GetUID())
		}
		c.write("", obj)
	}}
}

// named draws metadata. Labels and annotations may be those that loops go by.
func named(r *rand.Rand, name string) metav1.ObjectMeta {
	labels := map[string]string{}
	for range r.IntN(3) {
		key := pick(r, "app", corev1.IsHeadlessService, discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy,
			corev1.AnnotationTopologyMode)
		labels[key] = pick(r, "", "web", "endpointslice-controller.k8s.io",
			"endpointslicemirroring-controller.k8s.io", "Auto")
	}
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, Annotations: maps.Clone(labels)}
}

func someDeployment(r *rand.Rand) deed {
	d := &appsv1.Deployment{ObjectMeta: named(r, "web"), Spec: appsv1.DeploymentSpec{
		Replicas: orNil[int32](r, 0, 1, 3, 8), Selector: metav1.SetAsLabelSelector(map[string]string{"app": "web"}),
		Template:        template("web", pick(r, "web:v0", "web:v1", "web:v2")),
		MinReadySeconds: pick[int32](r, 0, 0, 5), Paused: r.IntN(4) == 0,
		ProgressDeadlineSeconds: orNil[int32](r, 6, 30, math.MaxInt32), RevisionHistoryLimit: orNil[int32](r, 0, 1, 2),
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
	}}
	d.Spec.Template.Labels[pick(r, "tier", "tier", appsv1.DefaultDeploymentUniqueLabelKey)] = "front"
	if r.IntN(3) > 0 {
		some := []intstr.IntOrString{intstr.FromInt32(0), intstr.FromInt32(2), intstr.FromString("50%"),
			intstr.FromString("100%")}
		rolling := &appsv1.RollingUpdateDeployment{MaxSurge: orNil(r, some...), MaxUnavailable: orNil(r, some...)}
		d.Spec.Strategy = appsv1.DeploymentStrategy{RollingUpdate: rolling}
	}
	return put(d)
}

// someSet draws a ReplicaSet or a ReplicationController that a user makes.
func someSet(r *rand.Rand) deed {
	size, selector, pods := orNil[int32](r, 0, 1, 3, 8), map[string]string{"app": "web"}, template("web", "web:v0")
	if r.IntN(3) == 0 {
		const hash = appsv1.DefaultDeploymentUniqueLabelKey
		selector, pods.Labels[hash] = map[string]string{hash: "front"}, "front"
	}
	if r.IntN(2) == 0 {
		return put(&corev1.ReplicationController{ObjectMeta: named(r, "set"), Spec: corev1.ReplicationControllerSpec{
			Replicas: size, Selector: pick(r, nil, selector), Template: &pods, MinReadySeconds: pick[int32](r, 0, 5)}})
	}
	without := []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist}}
	return put(&appsv1.ReplicaSet{ObjectMeta: named(r, "set"), Spec: appsv1.ReplicaSetSpec{
		Replicas: size, MinReadySeconds: pick[int32](r, 0, 5), Template: pods,
		Selector: pick(r, metav1.SetAsLabelSelector(selector), &metav1.LabelSelector{MatchExpressions: without})}})
}

// ofSet is what users do to what has pods.
func ofSet(r *rand.Rand) deed {
	what := pick(r, "scale", "scale", "image", "image", "pause", "undo", "note", "unlabel", "label", "release", "disown",
		"delete", "delete after its own")
	n, note := r.IntN(10), pick(r, "", "0", "2", "-1", "1.5", "3,4", "9223372036854775807")
	return deed{fmt.Sprintf("%s set %d %q", what, n, note), func(c *cluster) {
		all := slices.Concat(c.list(&appsv1.Deployment{}), c.list(&appsv1.ReplicaSet{}),
			c.list(&corev1.ReplicationController{}))
		if len(all) == 0 {
			return
		}
		switch set := all[n%len(all)].(type) {
		case *appsv1.Deployment:
			set.Spec.Paused = set.Spec.Paused != (what == "pause")
			c.changeSet(set, &set.ObjectMeta, &set.Spec.Replicas, &set.Spec.Template, what, n, note)
		case *appsv1.ReplicaSet:
			c.changeSet(set, &set.ObjectMeta, &set.Spec.Replicas, &set.Spec.Template, what, n, note)
		case *corev1.ReplicationController:
			c.changeSet(set, &set.ObjectMeta, &set.Spec.Replicas, set.Spec.Template, what, n, note)
		}
	}}
}

func (c *cluster) changeSet(
	set object, about *metav1.ObjectMeta, size **int32, pods *corev1.PodTemplateSpec, what string, n int, note string,
) {
	switch what {
	case "scale":
		*size = new(int32(n))
	case "image":
		pods.Spec.Containers[0].Image = fmt.Sprint("web:v", n%3)
	case "undo":
		metav1.SetMetaDataAnnotation(about, appsv1.DeprecatedRollbackTo, note)
	case "note":
		for _, key := range []string{"revision", "revision-history", "desired-replicas", "max-replicas"} {
			metav1.SetMetaDataAnnotation(about, "deployment.kubernetes.io/"+key, note)
		}
	case "delete":
		c.remove(resourceOf(set), namespace, about.Name, metav1.DeleteOptions{})
		return
	case "delete after its own":
		about.Finalizers = []string{metav1.FinalizerDeleteDependents}
		c.write("", set)
		c.remove(resourceOf(set), namespace, about.Name, metav1.DeleteOptions{})
		return
	default:
		relabel(about, what)
	}
	c.write("", set)
}

func someJobSpec(r *rand.Rand) batchv1.JobSpec {
	spec := batchv1.JobSpec{
		Parallelism: orNil[int32](r, 0, 1, 2, 3, 5), Completions: orNil[int32](r, 0, 1, 2, 3, 5),
		BackoffLimit:          orNil[int32](r, 0, 1, 3),
		ActiveDeadlineSeconds: pick(r, nil, nil, nil, new(int64(1)), new(int64(90))),
		Suspend:               pick(r, nil, nil, new(true), new(false)),
		Template:              template("job", "job:v1"),
		PodReplacementPolicy:  orNil(r, batchv1.Failed, batchv1.TerminatingOrFailed),
	}
	spec.Template.Spec.RestartPolicy = pick[corev1.RestartPolicy](r, "Never", "Never", "OnFailure")
	actions := []batchv1.PodFailurePolicyAction{"FailJob", "Ignore", "Count"}
	if r.IntN(3) > 0 {
		spec.CompletionMode, spec.Completions = new(batchv1.IndexedCompletion), new(int32(r.IntN(6)))
		spec.Parallelism = pick(r, spec.Parallelism, spec.Completions)
		if spec.BackoffLimitPerIndex = orNil[int32](r, 0, 1); spec.BackoffLimitPerIndex != nil {
			spec.MaxFailedIndexes, spec.BackoffLimit, actions = orNil[int32](r, 0, 1), nil, append(actions, "FailIndex")
		}
		rules := []batchv1.SuccessPolicyRule{{SucceededIndexes: pick(r, new("0"), new("0-1")),
			SucceededCount: orNil[int32](r, 0, 1, 2)}}
		spec.SuccessPolicy = pick(r, nil, nil, &batchv1.SuccessPolicy{Rules: rules})
	}
	if r.IntN(2) == 0 {
		spec.Template.Spec.RestartPolicy, spec.PodReplacementPolicy = corev1.RestartPolicyNever, nil
		exit := &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: "In", Values: []int32{3, 4}}
		rules := []batchv1.PodFailurePolicyRule{{Action: pick(r, actions...), OnExitCodes: exit}}
		spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules}
	}
	return spec
}

func someJob(r *rand.Rand) deed {
	return put(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "job"}, Spec: someJobSpec(r)})
}

// editJob is what may be changed of a Job. It may also go.
func editJob(r *rand.Rand) deed {
	what, n := pick(r, "parallelism", "indexes", "two steps", "suspension", "limits", "deadline", "end"), int32(r.IntN(6))
	return deed{fmt.Sprintf("the %s of a Job: %d", what, n), func(c *cluster) {
		all := c.list(&batchv1.Job{})
		if len(all) == 0 {
			return
		}
		switch job := all[0].(*batchv1.Job); what {
		case "parallelism":
			job.Spec.Parallelism = &n
		case "indexes":
			job.Spec.Parallelism, job.Spec.Completions = &n, &n
		case "two steps": // from how many indexes there are now
			job.Spec.Parallelism, job.Spec.Completions = &n, &n
			c.write("", job)
			job.ResourceVersion, job.Spec.Parallelism = "", new(n+1)
		case "suspension":
			job.Spec.Suspend = new(n%2 == 0)
		case "limits":
			job.Spec.BackoffLimit, job.Spec.MaxFailedIndexes = &n, new(n/2)
		case "deadline":
			job.Spec.ActiveDeadlineSeconds = new(int64(n * 30))
		case "end":
			c.remove(resourceOf(job), namespace, job.Name, metav1.DeleteOptions{})
		}
		c.write("", all[0].(object))
	}}
}

func someCronJob(r *rand.Rand) deed {
	cron := &batchv1.CronJob{ObjectMeta: named(r, pick(r, "cron", strings.Repeat("c", 52)))}
	cron.Spec = batchv1.CronJobSpec{
		Schedule:          pick(r, "* * * * *", "@every 90s", "*/5 * * * *"),
		ConcurrencyPolicy: pick[batchv1.ConcurrencyPolicy](r, "Allow", "Forbid", "Replace"),
		TimeZone:          orNil(r, "Etc/UTC", "Asia/Kathmandu"), Suspend: orNil(r, true, false),
		StartingDeadlineSeconds: orNil[int64](r, 0, 30, 200),
		FailedJobsHistoryLimit:  orNil[int32](r, 0, 1),
		JobTemplate:             batchv1.JobTemplateSpec{ObjectMeta: named(r, ""), Spec: someJobSpec(r)},
	}
	cron.Spec.JobTemplate.Namespace, cron.Spec.JobTemplate.Finalizers = "", pick(r, nil, []string{"example.com/held"})
	return put(cron)
}

func someDaemonSet(r *rand.Rand) deed {
	set := &appsv1.DaemonSet{ObjectMeta: named(r, "agent")}
	set.Spec.Selector = metav1.SetAsLabelSelector(map[string]string{"app": "web"})
	set.Spec.Template = template("web", pick(r, "web:v1", "web:v2", "web:v3"))
	set.Spec.MinReadySeconds, set.Spec.RevisionHistoryLimit = int32(r.IntN(5)), orNil[int32](r, 0, 1, 2)
	surge := orNil(r, intstr.FromInt32(0), intstr.FromString("50%"))
	unavailable := orNil(r, intstr.FromInt32(0), intstr.FromInt32(2))
	set.Spec.UpdateStrategy = pick(r, appsv1.DaemonSetUpdateStrategy{Type: "OnDelete"},
		appsv1.DaemonSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: surge,
			MaxUnavailable: unavailable}})
	if r.IntN(4) == 0 {
		set.Name, set.Spec.Template.Labels = "unlabelled", nil
		without := metav1.LabelSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist}
		set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{without}}
	}
	return put(set)
}

func template(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

func ofNode(r *rand.Rand) deed {
	zone := map[string]string{corev1.LabelTopologyZone: pick(r, "", "a", "b")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", r.IntN(3)), Labels: zone}}
	node.Spec.Unschedulable = r.IntN(2) == 0
	node.Spec.Taints = pick(r, nil, nil, []corev1.Taint{{Key: "out", Effect: corev1.TaintEffectNoExecute}})
	return pick(r, put(node), put(node), put(node),
		deed{node.Name + " goes", func(c *cluster) { c.remove(resourceOf(node), "", node.Name, metav1.DeleteOptions{}) }})
}

func protocol(r *rand.Rand) corev1.Protocol { return pick[corev1.Protocol](r, "TCP", "UDP", "SCTP") }

func address(r *rand.Rand) string {
	return pick(r, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "fd00::1", "fd00::2")
}

// strayPod draws a pod that a user makes, with a label for which a loop may take it for its own.
func strayPod(label, value string) func(r *rand.Rand) deed {
	return func(r *rand.Rand) deed {
		pod := &corev1.Pod{ObjectMeta: named(r, fmt.Sprint("stray-", r.IntN(6))), Spec: template("web", "web:v1").Spec}
		pod.Labels[label], pod.Annotations[batchv1.JobCompletionIndexAnnotation] = value, pick(r, "0", "1", "-1", "01", "9")
		pod.Spec.Containers[0].Resources = someResources(r)
		pod.Spec.Hostname, pod.Spec.Subdomain = pick(r, "", "host"), pick(r, "", "svc", "other")
		pod.Spec.NodeName = pick(r, "", "node-0", "node-9")
		pod.Spec.Containers[0].Ports = several(r, 3, func() corev1.ContainerPort {
			return corev1.ContainerPort{Name: pick(r, "", "http", "dns"),
				ContainerPort: 80 + int32(r.IntN(3)), Protocol: protocol(r)}
		})
		return put(pod)
	}
}

func someResources(r *rand.Rand) corev1.ResourceRequirements {
	limits := corev1.ResourceList{}
	for range r.IntN(3) {
		name := pick[corev1.ResourceName](r, "cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu")
		limits[name] = resource.MustParse(pick(r, "1", "100m", "4Mi"))
	}
	return corev1.ResourceRequirements{Requests: maps.Clone(limits), Limits: limits}
}

// ofPod is what kubelets and users do to a pod.
func ofPod(r *rand.Rand) deed {
	what := pick(r, "start", "start", "run unbound", "succeed", "succeed", "fail", "fail", "evict", "delete", "unlabel",
		"label", "release", "disown", "reindex")
	return toPod(r, what)
}

// runNowhere is a pod that gets an address on a node whose name is none: a Binding takes any.
func runNowhere(r *rand.Rand) deed { return toPod(r, "run nowhere") }

func toPod(r *rand.Rand, what string) deed {
	n, ips := r.IntN(10), []corev1.PodIP{{IP: address(r)}, {IP: address(r)}}[:1+r.IntN(2)]
	return deed{fmt.Sprintf("%s pod %d %v", what, n, ips), func(c *cluster) {
		pods := c.list(&corev1.Pod{})
		slices.SortStableFunc(pods, func(a, b any) int { return strings.Compare(looks(a), looks(b)) })
		if len(pods) > 0 {
			c.change(pods[n%len(pods)].(*corev1.Pod), what, n, ips)
		}
	}}
}

// looks are what is to be seen of a pod besides its name, which is by chance: pods are created side by side.
func looks(pod any) string {
	nameless := pod.(*corev1.Pod).DeepCopy()
	nameless.Name, nameless.UID, nameless.ResourceVersion = "", "", ""
	return string(done(json.Marshal(nameless)))
}

func startPods(r *rand.Rand) deed {
	ips := []corev1.PodIP{{IP: address(r)}}
	return deed{fmt.Sprint("start all pods ", ips), func(c *cluster) {
		for _, obj := range c.list(&corev1.Pod{}) {
			if pod := obj.(*corev1.Pod); pod.Status.Phase == corev1.PodPending {
				c.change(pod, "start", 0, ips)
			}
		}
	}}
}

func (c *cluster) change(pod *corev1.Pod, what string, n int, ips []corev1.PodIP) {
	subresource := ""
	switch what {
	case "start", "run unbound", "run nowhere":
		if what != "run unbound" {
			node := map[string]string{"start": "node-0", "run nowhere": "No_Node"}[what]
			pod.Spec.NodeName = cmp.Or(pod.Spec.NodeName, node)
			done(pod, c.Tracker().Update(resourceOf(pod), pod, namespace))
		}
		subresource, pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = "status", corev1.PodRunning, ips[0].IP, ips
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.Now()}}
	case "succeed":
		subresource, pod.Status.Phase, pod.Status.ContainerStatuses = "status", corev1.PodSucceeded, ended(0)
	case "fail", "evict":
		subresource, pod.Status.Phase, pod.Status.ContainerStatuses = "status", corev1.PodFailed, ended(int32(n))
		evicted := map[string]corev1.ConditionStatus{"fail": "False", "evict": "True"}[what]
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: evicted}}
	case "delete":
		c.remove(resourceOf(pod), namespace, pod.Name, metav1.DeleteOptions{})
		return
	case "reindex":
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, batchv1.JobCompletionIndexAnnotation, strconv.Itoa(n))
	default:
		relabel(&pod.ObjectMeta, what)
	}
	c.write(subresource, pod)
}

func ended(code int32) []corev1.ContainerStatus {
	terminated := &corev1.ContainerStateTerminated{ExitCode: code}
	return []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: terminated}}}
}

// relabel is what users do to the metadata of a pod or of what has pods.
func relabel(obj *metav1.ObjectMeta, what string) {
	switch what {
	case "unlabel":
		metav1.SetMetaDataAnnotation(obj, "had", string(done(json.Marshal(obj.Labels))))
		obj.Labels = nil
	case "label":
		_ = json.Unmarshal([]byte(obj.Annotations["had"]), &obj.Labels) // or it has them
	case "release":
		obj.Finalizers = nil
	case "disown":
		obj.OwnerReferences = nil
	}
}

func someService(r *rand.Rand) deed {
	service := &corev1.Service{ObjectMeta: named(r, "svc"), Spec: corev1.ServiceSpec{
		Selector:                 pick(r, nil, map[string]string{"app": "web"}, map[string]string{"app": "web"}),
		PublishNotReadyAddresses: r.IntN(2) == 0,
		IPFamilies: pick(r, []corev1.IPFamily{"IPv4"}, []corev1.IPFamily{"IPv6"},
			[]corev1.IPFamily{"IPv4", "IPv6"}),
		IPFamilyPolicy:      new(corev1.IPFamilyPolicyPreferDualStack),
		TrafficDistribution: orNil(r, "PreferClose", "PreferSameNode"),
		Type:                pick[corev1.ServiceType](r, "", "", "NodePort", "LoadBalancer"),
	}}
	service.Spec.Ports = several(r, 4, func() corev1.ServicePort {
		target := pick(r, intstr.FromInt32(80), intstr.FromInt32(81), intstr.FromString("http"), intstr.FromString("dns"))
		name, application := pick(r, "", "http", "dns"), orNil(r, "example.com/x")
		return corev1.ServicePort{Name: name, Port: 80 + int32(r.IntN(3)), TargetPort: target,
			Protocol: protocol(r), AppProtocol: application}
	})
	for _, family := range service.Spec.IPFamilies {
		service.Spec.ClusterIPs = append(service.Spec.ClusterIPs,
			map[corev1.IPFamily]string{"IPv4": "10.1.0.1", "IPv6": "fd01::1"}[family])
	}
	service.Spec.ClusterIPs = pick(r, service.Spec.ClusterIPs, []string{corev1.ClusterIPNone})
	service.Spec.ClusterIP = service.Spec.ClusterIPs[0]
	if r.IntN(6) == 0 {
		service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com",
			Selector: service.Spec.Selector}
	}
	return put(service)
}

func someEndpoints(r *rand.Rand) deed {
	one := func() corev1.EndpointAddress {
		return corev1.EndpointAddress{IP: address(r), Hostname: pick(r, "", "host"), NodeName: orNil(r, "node-0")}
	}
	port := func() corev1.EndpointPort {
		return corev1.EndpointPort{Name: pick(r, "", "http", "dns"), Port: 80 + int32(r.IntN(2)), Protocol: protocol(r)}
	}
	return put(&corev1.Endpoints{ObjectMeta: named(r, "svc"), Subsets: several(r, 4, func() corev1.EndpointSubset {
		return corev1.EndpointSubset{Addresses: several(r, 6, one), NotReadyAddresses: several(r, 3, one),
			Ports: several(r, 4, port)}
	})})
}

// someQuota draws a quota. What it limits may be no resource.
func someQuota(r *rand.Rand) deed {
	q := &corev1.ResourceQuota{ObjectMeta: named(r, pick(r, "some", "more")),
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	for range 1 + r.IntN(6) {
		name := pick[corev1.ResourceName](r, "pods", "count/pods", "cpu", "limits.memory",
			"requests.ephemeral-storage", "hugepages-2Mi",
			"requests.example.com/gpu", "services", "services.nodeports", "services.loadbalancers",
			"count/services", "persistentvolumeclaims",
			"requests.storage", "gold.storageclass.storage.k8s.io/requests.storage", "gpu.deviceclass.resource.k8s.io/devices",
			"count/shoes.example.com", "resourcequotas", "example.com/gpu", "shoes")
		q.Spec.Hard[name] = resource.MustParse(pick(r, "0", "3", "1Gi", "1.5"))
	}
	q.Spec.Scopes = several(r, 3, func() corev1.ResourceQuotaScope {
		return pick[corev1.ResourceQuotaScope](r, "Terminating", "NotTerminating", "BestEffort", "NotBestEffort",
			"CrossNamespacePodAffinity")
	})
	q.Spec.Scopes = pick(r, nil, q.Spec.Scopes)
	return put(q)
}

// ofQuota is what users, and the API server that counts a creation, do to a quota.
func ofQuota(r *rand.Rand) deed {
	what, n := pick(r, "count in", "count in", "limit", "delete"), r.IntN(2)
	amount := resource.MustParse(pick(r, "1", "2Gi"))
	return deed{fmt.Sprintf("%s quota %d %v", what, n, &amount), func(c *cluster) {
		all := c.list(&corev1.ResourceQuota{})
		if len(all) == 0 {
			return
		}
		q, subresource := all[n%len(all)].(*corev1.ResourceQuota), ""
		switch what {
		case "count in":
			subresource = "status"
			for name, used := range q.Status.Used {
				used.Add(amount)
				q.Status.Used[name] = used
			}
		case "limit":
			for name := range q.Spec.Hard {
				q.Spec.Hard[name] = amount
			}
		case "delete":
			c.remove(resourceOf(q), namespace, q.Name, metav1.DeleteOptions{})
			return
		}
		c.write(subresource, q)
	}}
}

func someClaim(r *rand.Rand) deed {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: named(r, fmt.Sprint("claim-", r.IntN(3)))}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.StorageClassName = orNil(r, "gold", "")
	claim.Spec.Resources.Requests = corev1.ResourceList{"storage": resource.MustParse(pick(r, "1Gi", "0.5", "3"))}
	goes := deed{claim.Name + " goes", func(c *cluster) { c.remove(resourceOf(claim), namespace, claim.Name, metav1.DeleteOptions{}) }}
	return pick(r, put(claim), put(claim), goes)
}

// someSlice draws a slice that a user writes where a loop may take it for its own.
func someSlice(r *rand.Rand) deed {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: named(r, fmt.Sprint("slice-", r.IntN(2)))}
	slice.AddressType = pick[discoveryv1.AddressType](r, "IPv4", "IPv6", "FQDN")
	slice.Labels[discoveryv1.LabelServiceName] = "svc"
	slice.Endpoints = several(r, 4, func() discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{pick(r, address(r), "example.com")}, Hostname: orNil(r, "host")}
	})
	return put(slice)
}
