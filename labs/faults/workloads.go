package faults

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Workload is what a user does in a run, step by step.
type Workload struct {
	Name string
	// Says is what happens.
	Says string
	// Loops are those that work.
	Loops []string
	// Watched are the resources whose watches and lists are disturbed.
	Watched []string
	// Needed are others that a manager may watch only when it has to.
	Needed []string
	// Recorded are the resources of which each state is kept, besides Deployments,
	// ReplicaSets and pods.
	Recorded []string
	// Bare tells that the loops are to make the namespace's service account.
	Bare bool
	// Goes tells that the namespace is gone in the end.
	Goes bool
	play func(ctx context.Context, s *stage) error
}

var (
	forDeployments = []string{"deployment-controller", "replicaset-controller"}
	forSets        = []string{"replicaset-controller"}
	withCollector  = append(forDeployments[:2:2], "garbage-collector-controller")
	theThree       = []string{"deployments", "replicasets", "pods"}
)

// Workloads are all that are played.
var Workloads = []Workload{
	{Name: "rollout", Says: "3 pods, then another image", Loops: forDeployments, Watched: theThree, play: rollout},
	{Name: "scale", Says: "2 pods, then 5, then 1", Loops: forDeployments, Watched: theThree, play: scale},
	{Name: "rollover", Says: "3 pods, then an image that never gets ready, then a third one", Loops: forDeployments, Watched: theThree, play: rollover},
	{Name: "recreate", Says: "2 pods, then another image, with Recreate", Loops: forDeployments, Watched: theThree, play: recreation},
	{Name: "adopt", Says: "a ReplicaSet of 3, a pod that loses its label, then gets it again", Loops: forSets, Watched: theThree[1:], play: adopt},
	{Name: "collect", Says: "a Deployment of 2 is deleted, in the background", Loops: withCollector, Watched: theThree, play: collect(metav1.DeletePropagationBackground)},
	{Name: "foreground", Says: "a Deployment of 2 is deleted after what it owns", Loops: withCollector, Watched: theThree, play: collect(metav1.DeletePropagationForeground)},
	{Name: "orphan", Says: "a Deployment of 2 is deleted without what it owns, and made anew", Loops: withCollector, Watched: theThree, play: orphan},
	{Name: "namespace", Says: "a namespace with a Deployment of 2 is deleted", Loops: append(forDeployments[:2:2], "namespace-controller"),
		Watched: append(theThree[:3:3], "namespaces"), Goes: true, play: deleteNamespace},
	{Name: "daemons", Says: "a pod on each node, then another image", Loops: []string{"daemonset-controller"},
		Watched: []string{"daemonsets", "controllerrevisions", "pods"}, Recorded: []string{"daemonsets", "controllerrevisions"}, play: daemons(0)},
	{Name: "daemons-surge", Says: "a pod on each node, then another image, the new pods first", Loops: []string{"daemonset-controller"},
		Watched: []string{"daemonsets", "controllerrevisions", "pods"}, Recorded: []string{"daemonsets", "controllerrevisions"}, play: daemons(1)},
	{Name: "job", Says: "a Job of 6 pods, 2 at a time", Loops: []string{"job-controller"},
		Watched: []string{"jobs", "pods"}, Recorded: []string{"jobs"}, play: runJob},
	{Name: "suspend", Says: "a Job of 3 pods is suspended", Loops: []string{"job-controller"},
		Watched: []string{"jobs", "pods"}, Recorded: []string{"jobs"}, play: suspend},
	{Name: "service", Says: "a Service of 3 pods, then another image", Loops: append(forDeployments[:2:2], "endpoints-controller", "endpointslice-controller"),
		Watched: append(theThree[:3:3], "services", "endpoints", "endpointslices"), Recorded: []string{"services", "endpoints", "endpointslices"}, play: serve},
	{Name: "quota", Says: "quotas of 3 pods and of 2 ConfigMaps are used up, some end or go, others come; each time one more is tried", Loops: []string{"resourcequota-controller"},
		Watched: []string{"resourcequotas"}, Needed: []string{"pods", "configmaps"}, Recorded: []string{"resourcequotas", "configmaps"}, play: useUp},
	{Name: "bursts", Says: "12 clients create 180 pods and ConfigMaps at a time, of which quotas allow 10 and 5, while some are deleted", Loops: []string{"resourcequota-controller"},
		Watched: []string{"resourcequotas"}, Needed: []string{"pods", "configmaps"}, Recorded: []string{"resourcequotas", "configmaps"}, play: createInBursts},
	{Name: "accounts", Says: "a namespace gets its account and the root CA, and gets them again", Loops: []string{"serviceaccount-controller", "root-ca-certificate-publisher-controller"},
		Watched: []string{"serviceaccounts", "configmaps"}, Recorded: []string{"serviceaccounts", "configmaps"}, Bare: true, play: accounts},
	{Name: "inherit", Says: "a Deployment of 1 finds two old ReplicaSets and keeps one, which then loses its label", Loops: forDeployments, Watched: theThree, play: inherit},
	{Name: "follow", Says: "a Job is deleted, and its 2 pods follow", Loops: []string{"job-controller", "garbage-collector-controller"},
		Watched: []string{"jobs", "pods"}, Recorded: []string{"jobs"}, play: follow},
	{Name: "finished", Says: "the time of one finished Job is over, and a CronJob keeps none of its own", Loops: []string{"ttl-after-finished-controller", "cronjob-controller", "garbage-collector-controller"},
		Watched: []string{"jobs", "cronjobs"}, Recorded: []string{"jobs"}, play: finish},
	{Name: "slices", Says: "a Service gives up one of two address families, and Endpoints that a user wrote go", Loops: []string{"endpointslice-controller", "endpointslice-mirroring-controller"},
		Watched: []string{"services", "endpoints", "endpointslices"}, Recorded: []string{"services", "endpoints", "endpointslices"}, play: giveUp},
	{Name: "tokens", Says: "an account gets a token Secret, and goes", Loops: []string{"serviceaccount-token-controller"},
		Watched: []string{"serviceaccounts", "secrets"}, Recorded: []string{"serviceaccounts", "secrets"}, play: tokens},
}

const app = "web"

// podTemplate is one whose pods are ready soon, or never.
func podTemplate(image string, ready bool) corev1.PodTemplateSpec {
	after := "50ms"
	if !ready {
		after = "never"
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"app": app},
			Annotations: map[string]string{"lab.kcm-book.io/ready-after": after, "lab.kcm-book.io/stop-after": "50ms"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: app, Image: image}}},
	}
}

func deployment(replicas int32, strategy appsv1.DeploymentStrategyType) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: metav1.SetAsLabelSelector(map[string]string{"app": app}),
			Template: podTemplate("web:1", true), Strategy: appsv1.DeploymentStrategy{Type: strategy},
		},
	}
}

func (s *stage) createDeployment(ctx context.Context, replicas int32, strategy appsv1.DeploymentStrategyType) error {
	s.did(fmt.Sprintf("create deployment %s of %d", app, replicas))
	_, err := s.client.AppsV1().Deployments(s.namespace).Create(ctx, deployment(replicas, strategy), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return s.rolledOut(ctx)
}

func (s *stage) patchDeployment(ctx context.Context, patch string) error {
	s.did("patch deployment " + app + " " + patch)
	_, err := s.client.AppsV1().Deployments(s.namespace).Patch(ctx, app, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// setImage rolls out an image.
func (s *stage) setImage(ctx context.Context, image string, ready bool) error {
	after := podTemplate(image, ready).Annotations["lab.kcm-book.io/ready-after"]
	return s.patchDeployment(ctx, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"lab.kcm-book.io/ready-after":"%s"}},"spec":{"containers":[{"name":"%s","image":"%s"}]}}}}`, after, app, image))
}

func (s *stage) rolledOut(ctx context.Context) error {
	return s.await(ctx, "the Deployment is rolled out", func(w *World) bool {
		d := w.deployment(app)
		if d == nil || d.Status.ObservedGeneration != d.Generation {
			return false
		}
		n := size(d.Spec.Replicas)
		return d.Status.Replicas == n && d.Status.UpdatedReplicas == n && d.Status.AvailableReplicas == n && int32(len(w.Pods)) == n
	})
}

func rollout(ctx context.Context, s *stage) error {
	if err := s.createDeployment(ctx, 3, ""); err != nil {
		return err
	}
	if err := s.setImage(ctx, "web:2", true); err != nil {
		return err
	}
	return s.rolledOut(ctx)
}

func scale(ctx context.Context, s *stage) error {
	if err := s.createDeployment(ctx, 2, ""); err != nil {
		return err
	}
	for _, replicas := range []int{5, 1} {
		if err := s.patchDeployment(ctx, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)); err != nil {
			return err
		}
		if err := s.rolledOut(ctx); err != nil {
			return err
		}
	}
	return nil
}

func rollover(ctx context.Context, s *stage) error {
	if err := s.createDeployment(ctx, 3, ""); err != nil {
		return err
	}
	if err := s.setImage(ctx, "web:2", false); err != nil {
		return err
	}
	err := s.await(ctx, "a pod of the second image is there", func(w *World) bool {
		return len(sorted(w.Pods, func(p *corev1.Pod) bool { return imageOf(p.Spec) == "web:2" })) > 0
	})
	if err != nil {
		return err
	}
	if err := s.setImage(ctx, "web:3", true); err != nil {
		return err
	}
	return s.rolledOut(ctx)
}

func recreation(ctx context.Context, s *stage) error {
	if err := s.createDeployment(ctx, 2, appsv1.RecreateDeploymentStrategyType); err != nil {
		return err
	}
	if err := s.setImage(ctx, "web:2", true); err != nil {
		return err
	}
	return s.rolledOut(ctx)
}

func adopt(ctx context.Context, s *stage) error {
	replicas := int32(3)
	s.did("create replicaset " + app + " of 3")
	_, err := s.client.AppsV1().ReplicaSets(s.namespace).Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: metav1.SetAsLabelSelector(map[string]string{"app": app}), Template: podTemplate("web:1", true)},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	var pod *corev1.Pod
	settled := func(all int) func(w *World) bool {
		return func(w *World) bool {
			rs := w.set(app)
			if rs == nil || rs.Status.AvailableReplicas != replicas || rs.Status.Replicas != replicas || len(w.Pods) != all {
				return false
			}
			pod = w.podsOf(rs)[0]
			return len(w.podsOf(rs)) == int(replicas)
		}
	}
	if err := s.await(ctx, "the ReplicaSet has its pods", settled(3)); err != nil {
		return err
	}
	left := pod.Name
	for _, step := range []struct {
		label string
		all   int
	}{{"other", 4}, {app, 3}} {
		s.did("label pod " + left + " app=" + step.label)
		_, err := s.client.CoreV1().Pods(s.namespace).Patch(ctx, left, types.StrategicMergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"app":"%s"}}}`, step.label), metav1.PatchOptions{})
		if err != nil {
			return err
		}
		if err := s.await(ctx, fmt.Sprintf("the ReplicaSet has its 3 pods of %d", step.all), settled(step.all)); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) deleteDeployment(ctx context.Context, policy metav1.DeletionPropagation) error {
	s.did(fmt.Sprintf("delete deployment %s (%s)", app, policy))
	return s.client.AppsV1().Deployments(s.namespace).Delete(ctx, app, metav1.DeleteOptions{PropagationPolicy: &policy})
}

func collect(policy metav1.DeletionPropagation) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		if err := s.createDeployment(ctx, 2, ""); err != nil {
			return err
		}
		if err := s.deleteDeployment(ctx, policy); err != nil {
			return err
		}
		return s.await(ctx, "all that it owned is gone", func(w *World) bool {
			return len(w.Deployments)+len(w.ReplicaSets)+len(w.Pods) == 0
		})
	}
}

func orphan(ctx context.Context, s *stage) error {
	if err := s.createDeployment(ctx, 2, ""); err != nil {
		return err
	}
	if err := s.deleteDeployment(ctx, metav1.DeletePropagationOrphan); err != nil {
		return err
	}
	if err := s.await(ctx, "the Deployment is gone", func(w *World) bool { return len(w.Deployments) == 0 }); err != nil {
		return err
	}
	return s.createDeployment(ctx, 2, "")
}

func deleteNamespace(ctx context.Context, s *stage) error {
	if err := s.createDeployment(ctx, 2, ""); err != nil {
		return err
	}
	s.did("delete the namespace")
	s.checkUntil(time.Now()) // from now on all is deleted, in any order
	if err := s.client.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return s.insist(ctx, "the namespace goes", func(ctx context.Context) error {
		ns, err := s.client.CoreV1().Namespaces().Get(ctx, s.namespace, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("it is there: %v", ns.Status)
		}
		return err
	})
}

func accounts(ctx context.Context, s *stage) error {
	there := func(w *World) bool {
		return w.Others["serviceaccounts"]["default"] && w.Others["configmaps"]["kube-root-ca.crt"]
	}
	if err := s.await(ctx, "the namespace has its account and the root CA", there); err != nil {
		return err
	}
	s.did("delete serviceaccount default and configmap kube-root-ca.crt")
	if err := s.client.CoreV1().ServiceAccounts(s.namespace).Delete(ctx, "default", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := s.client.CoreV1().ConfigMaps(s.namespace).Delete(ctx, "kube-root-ca.crt", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return s.await(ctx, "it has them again", there)
}

// daemons rolls a DaemonSet out, with this many nodes that may have two pods; if
// there are none one node may be without.
func daemons(surge int32) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		s.did(fmt.Sprintf("create daemonset %s with a surge of %d", app, surge))
		more, without := intstr.FromInt32(surge), intstr.FromInt32(1-surge)
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: appsv1.DaemonSetSpec{
			Selector: metav1.SetAsLabelSelector(map[string]string{"app": app}), Template: podTemplate("web:1", true), RevisionHistoryLimit: new(int32),
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: &more, MaxUnavailable: &without}},
		}}
		if _, err := s.client.AppsV1().DaemonSets(s.namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := s.onAllNodes(ctx, "web:1"); err != nil {
			return err
		}
		patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"%s","image":"web:2"}]}}}}`, app)
		s.did("patch daemonset " + app + " " + patch)
		_, err := s.client.AppsV1().DaemonSets(s.namespace).Patch(ctx, app, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			return err
		}
		return s.onAllNodes(ctx, "web:2")
	}
}

// onAllNodes waits until the DaemonSet has a pod of the image on each node, and
// says so.
func (s *stage) onAllNodes(ctx context.Context, image string) error {
	return s.await(ctx, "the DaemonSet has its pods of "+image, func(w *World) bool {
		nodes := map[string]bool{}
		for _, pod := range w.Pods {
			nodes[pod.Spec.NodeName] = imageOf(pod.Spec) == image && isAvailable(pod)
		}
		for _, set := range w.DaemonSets {
			n, status := int32(len(nodes)), set.Status
			if n == 0 || len(w.Pods) != len(nodes) || status.DesiredNumberScheduled != n || status.UpdatedNumberScheduled != n ||
				status.NumberAvailable != n || status.ObservedGeneration != set.Generation {
				return false
			}
		}
		for _, works := range nodes {
			if !works {
				return false
			}
		}
		return len(w.DaemonSets) == 1
	})
}

func (s *stage) createJob(ctx context.Context, completions, parallelism int32, runFor string) error {
	s.did(fmt.Sprintf("create job %s of %d, %d at a time", app, completions, parallelism))
	_, err := s.client.BatchV1().Jobs(s.namespace).Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       batchv1.JobSpec{Completions: &completions, Parallelism: &parallelism, Template: jobTemplate(runFor)},
	}, metav1.CreateOptions{})
	return err
}

// jobTemplate is one whose pods succeed after some time.
func jobTemplate(runFor string) corev1.PodTemplateSpec {
	template := podTemplate("web:1", false)
	template.Annotations["lab.kcm-book.io/run-for"] = runFor
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return template
}

func suspend(ctx context.Context, s *stage) error {
	if err := s.createJob(ctx, 3, 3, "1h"); err != nil {
		return err
	}
	if err := s.await(ctx, "the Job runs", func(w *World) bool { return w.job(app) != nil && w.job(app).Status.Active == 3 }); err != nil {
		return err
	}
	s.did("suspend job " + app)
	patch := []byte(`{"spec":{"suspend":true}}`)
	if _, err := s.client.BatchV1().Jobs(s.namespace).Patch(ctx, app, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	return s.await(ctx, "the Job counts no pod, and there is none", func(w *World) bool {
		return w.job(app).Status.Active == 0 && len(w.Pods) == 0
	})
}

func runJob(ctx context.Context, s *stage) error {
	if err := s.createJob(ctx, 6, 2, "100ms"); err != nil {
		return err
	}
	return s.await(ctx, "the Job is complete, and counts its pods", func(w *World) bool {
		job := w.job(app)
		if job == nil || job.Status.CompletionTime == nil {
			return false
		}
		return job.Status.Succeeded == count(w.podsOfJob(job), hasSucceeded) && job.Status.Failed == 0
	})
}

func serve(ctx context.Context, s *stage) error {
	s.did("create service " + app)
	_, err := s.client.CoreV1().Services(s.namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := s.createDeployment(ctx, 3, ""); err != nil {
		return err
	}
	if err := s.told(ctx); err != nil {
		return err
	}
	if err := s.setImage(ctx, "web:2", true); err != nil {
		return err
	}
	if err := s.rolledOut(ctx); err != nil {
		return err
	}
	return s.told(ctx)
}

// told waits until slices and Endpoints have each pod once, and no others, and say
// whether it is ready.
func (s *stage) told(ctx context.Context) error {
	return s.await(ctx, "slices and Endpoints tell of the pods as they are", func(w *World) bool {
		inSlices, inEndpoints := w.toldOf()
		if len(inSlices) != len(w.Pods) || len(inEndpoints) != len(w.Pods) {
			return false
		}
		for uid, pod := range w.Pods {
			want := []bool{isAvailable(pod) && pod.DeletionTimestamp == nil}
			if !slices.Equal(inSlices[uid], want) || !slices.Equal(inEndpoints[uid], want) {
				return false
			}
		}
		return true
	})
}
