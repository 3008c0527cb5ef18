package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// createFirstWork creates something for each loop to do.
func (t *trial) createFirstWork(ctx context.Context) error {
	core, apps, options := t.client.CoreV1(), t.client.AppsV1(), metav1.CreateOptions{}
	if _, err := apps.Deployments(coldNamespace).Create(ctx, newDeployment("deployment", 1), options); err != nil {
		return err
	}
	if _, err := apps.ReplicaSets(coldNamespace).Create(ctx, newReplicaSet("replicaset"), options); err != nil {
		return err
	}
	template := newTemplate(map[string]string{"app": "rc"})
	rc := &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "rc"},
		Spec:       corev1.ReplicationControllerSpec{Replicas: new(int32(1)), Template: &template},
	}
	if _, err := core.ReplicationControllers(coldNamespace).Create(ctx, rc, options); err != nil {
		return err
	}
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
	_, err := core.Secrets(coldNamespace).Create(ctx, token, options)
	return err
}

// firstWork knows which loops have done their first work, and when.
type firstWork struct {
	moments
	// loops are how many have work that waits for them here.
	loops int
	done  map[string]time.Time
}

// loop returns what notes the first work of a loop.
func (f *firstWork) loop(name string) func(worked bool) {
	f.loops++
	return func(worked bool) { f.note(name, worked) }
}

// coldStart starts the first replica and waits until each loop has worked.
func (t *trial) coldStart(ctx context.Context) error {
	work := &firstWork{done: map[string]time.Time{}}
	stop, err := startInformers(ctx, t.client, work.handle)
	if err != nil {
		return err
	}
	defer stop()
	all := work.when(func() bool { return len(work.done) == work.loops })
	if t.leader, err = t.startReplica(); err != nil {
		return err
	}
	started, err := work.wait(ctx, "each loop has done its first work", all, func() string {
		return "only from " + strings.Join(slices.Sorted(maps.Keys(work.done)), ", ")
	})
	if err != nil {
		return err
	}
	t.set(keyColdStart, started.Sub(t.leader.started))
	t.result.FirstWork = map[string]float64{}
	for loop, at := range work.done {
		t.result.FirstWork[loop] = at.Sub(t.leader.started).Seconds()
	}
	t.say("cold start: %.2f s", t.result.Values[keyColdStart])
	return nil
}

// handle watches for what each loop makes of the work that waits for it.
func (f *firstWork) handle(factory informers.SharedInformerFactory) []cache.InformerSynced {
	core, apps := factory.Core().V1(), factory.Apps().V1()
	deployment, replicaSet, replicationController := f.loop("deployment-controller"), f.loop("replicaset-controller"), f.loop("replicationcontroller-controller")
	account, rootCA, token := f.loop("serviceaccount-controller"), f.loop("root-ca-certificate-publisher-controller"), f.loop("serviceaccount-token-controller")
	return []cache.InformerSynced{
		onChange(apps.ReplicaSets().Informer(), func(rs *appsv1.ReplicaSet) {
			deployment(ownedBy(rs, "Deployment", "deployment"))
		}),
		onChange(core.Pods().Informer(), func(pod *corev1.Pod) {
			replicaSet(ownedBy(pod, "ReplicaSet", "replicaset"))
			replicationController(ownedBy(pod, "ReplicationController", "rc"))
		}),
		onChange(core.ServiceAccounts().Informer(), func(a *corev1.ServiceAccount) {
			account(a.Namespace == bareNamespace && a.Name == "default")
		}),
		onChange(core.ConfigMaps().Informer(), func(config *corev1.ConfigMap) {
			rootCA(config.Namespace == bareNamespace && config.Name == "kube-root-ca.crt")
		}),
		onChange(core.Secrets().Informer(), func(secret *corev1.Secret) {
			token(secret.Namespace == coldNamespace && len(secret.Data[corev1.ServiceAccountTokenKey]) > 0)
		}),
	}
}

// onChange calls changed with each object that appears or changes.
func onChange[T metav1.Object](informer cache.SharedIndexInformer, changed func(T)) cache.InformerSynced {
	return controller.Handle(informer, controller.Handlers[T]{Add: changed, Update: func(_, obj T) { changed(obj) }})
}

func ownedBy(obj metav1.Object, kind, name string) bool {
	owner := metav1.GetControllerOf(obj)
	return obj.GetNamespace() == coldNamespace && owner != nil && owner.Kind == kind && owner.Name == name
}

// note keeps when a loop has done its first work.
func (f *firstWork) note(loop string, done bool) {
	if !done {
		return
	}
	f.change(func() {
		if _, noted := f.done[loop]; !noted {
			f.done[loop] = time.Now()
		}
	})
}
