package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Each part of a trial has a namespace of its own.
const (
	limitNamespace  = "limit"
	coldNamespace   = "cold"
	bareNamespace   = "bare"
	bigNamespace    = "big"
	manyNamespace   = "many"
	cleanNamespace  = "clean"
	killedNamespace = "killed"
	doomedNamespace = "doomed"
	ownedNamespace  = "owned"
	canaryNamespace = "canary"
	growthNamespace = "growth"

	restartNamespace = "restart"
	relabelNamespace = "relabel"
	hugeNamespace    = "huge"
	quotaNamespace   = "quota"
	daemonNamespace  = "daemons"

	jobNamespace      = "job"
	manyJobsNamespace = "jobs"

	rolloutNamespace = "rollout"
	fewNamespace     = "few"
	crowdedNamespace = "crowded"
)

// prepare creates the namespaces, with the ServiceAccount that pods need, and
// what waits for each loop's first work.
func (t *trial) prepare(ctx context.Context) error {
	for _, namespace := range []string{limitNamespace, coldNamespace, bareNamespace, bigNamespace, manyNamespace, cleanNamespace, killedNamespace,
		doomedNamespace, ownedNamespace, canaryNamespace, growthNamespace, restartNamespace, relabelNamespace, hugeNamespace, quotaNamespace, daemonNamespace,
		jobNamespace, manyJobsNamespace, rolloutNamespace, fewNamespace, crowdedNamespace} {
		if err := t.createNamespace(ctx, namespace); err != nil {
			return err
		}
	}
	if err := t.createFirstWork(ctx); err != nil {
		return fmt.Errorf("create the loops' first work: %w", err)
	}
	return nil
}

func (t *trial) createNamespace(ctx context.Context, name string) error {
	core, options := t.client.CoreV1(), metav1.CreateOptions{}
	if _, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, options); err != nil {
		return err
	}
	if name == bareNamespace {
		return nil
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := core.ServiceAccounts(name).Create(ctx, account, options)
	return err
}

// newDeployment returns a Deployment with the API's defaults: a rolling update
// may have 25 % of the pods too many and 25 % unavailable.
func newDeployment(name string, replicas int) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: newTemplate(labels),
		},
	}
}

func newReplicaSet(name string) *appsv1.ReplicaSet {
	labels := map[string]string{"app": name}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: newTemplate(labels),
		},
	}
}

func newTemplate(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
}
