package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kcm-book/kcm-book/labs/history"
)

const (
	namespace      = "default"
	replicas       = 12
	maxSurge       = 3
	maxUnavailable = 3
)

// rollOut creates a Deployment and waits until it is complete.
func (d *demo) rollOut(ctx context.Context) error {
	d.story.step("A Deployment of %d pods rolls out", replicas)
	if err := d.record(ctx); err != nil {
		return err
	}
	// Pods need the ServiceAccount that one of the loops creates.
	err := d.wait(ctx, "the default ServiceAccount is there", func() (bool, string, error) {
		_, err := d.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err), nil
	})
	if err != nil {
		return err
	}
	if _, err := d.client.AppsV1().Deployments(namespace).Create(ctx, web(), metav1.CreateOptions{}); err != nil {
		return err
	}
	return d.watchRollout(ctx, nil)
}

func web() *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	surge, unavailable := intstr.FromInt32(maxSurge), intstr.FromInt32(maxUnavailable)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{container()}},
			},
		},
	}
}

// container takes about a second to be ready, on simulated nodes and on kind,
// where the probe asks it. A busy machine may take its time to answer.
func container() corev1.Container {
	ready := &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)}
	return corev1.Container{
		Name: "web", Image: "web:1", Args: []string{"--ready-after=1s"},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: ready},
			PeriodSeconds: 1, TimeoutSeconds: 2, FailureThreshold: 10,
		},
	}
}

// update changes the image and shows old pods being replaced by new ones.
func (d *demo) update(ctx context.Context) error {
	d.story.step("Its image changes: at most %d pods more and %d fewer than %d at any time", maxSurge, maxUnavailable, replicas)
	if err := d.setImage(ctx, "web:2"); err != nil {
		return err
	}
	return d.watchRollout(ctx, nil)
}

// killTheLeader kills the leader in the middle of another update.
func (d *demo) killTheLeader(ctx context.Context) error {
	d.story.step("It changes again, and half-way the leader is killed")
	leader, err := d.waitForLeader(ctx, "")
	if err != nil {
		return err
	}
	if err := d.setImage(ctx, "web:3"); err != nil {
		return err
	}
	var killed time.Time
	err = d.watchRollout(ctx, func(counts map[string]int) error {
		if !killed.IsZero() || counts["web:3"] < replicas/2 {
			return nil
		}
		killed = time.Now()
		d.stopReplica(leader, syscall.SIGKILL)
		d.story.say("%s", bold(fmt.Sprintf("%s is killed; nobody leads until its Lease has run out", leader)))
		return nil
	})
	if err != nil {
		return err
	}
	successor, err := d.waitForLeader(ctx, leader)
	if err != nil {
		return err
	}
	d.story.say("%s has finished what %s had begun, %.1f s after the kill", successor, leader, time.Since(killed).Seconds())
	return nil
}

// handOver stops the leader as a person would: it gives up the Lease itself.
func (d *demo) handOver(ctx context.Context) error {
	d.story.step("A leader that is asked to stop hands over without the wait")
	leader, err := d.waitForLeader(ctx, "")
	if err != nil {
		return err
	}
	if err := d.startReplica("kcm-3"); err != nil {
		return err
	}
	err = d.wait(ctx, "kcm-3 waits to lead", func() (bool, string, error) {
		ready, err := d.logContains("kcm-3", "Attempting to acquire leader lease")
		return ready, "", err
	})
	if err != nil {
		return err
	}
	stopped := time.Now()
	d.stopReplica(leader, syscall.SIGTERM)
	successor, err := d.waitForLeader(ctx, leader)
	if err != nil {
		return err
	}
	d.story.say("%s has stopped and %s leads, %.1f s later", leader, successor, time.Since(stopped).Seconds())
	return nil
}

func (d *demo) setImage(ctx context.Context, image string) error {
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":%q}]}}}}`, image)
	_, err := d.client.AppsV1().Deployments(namespace).Patch(ctx, "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// watchRollout draws how many pods there are of each image, a line for each
// change, until the Deployment is complete. It calls seen with each change.
func (d *demo) watchRollout(ctx context.Context, seen func(map[string]int) error) error {
	drawn := ""
	return d.wait(ctx, "the Deployment is complete", func() (bool, string, error) {
		changes, err := d.recording.Changes()
		if err != nil {
			return false, "", err
		}
		counts := available(history.Now(changes))
		if picture := draw(counts); picture != drawn {
			drawn = picture
			d.story.say("%s", picture)
			if seen != nil {
				if err := seen(counts); err != nil {
					return false, "", err
				}
			}
		}
		web, err := d.client.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		status := web.Status
		complete := status.ObservedGeneration == web.Generation && status.UpdatedReplicas == replicas &&
			status.Replicas == replicas && status.AvailableReplicas == replicas
		return complete && counts[web.Spec.Template.Spec.Containers[0].Image] == replicas, fmt.Sprintf("%+v", status), nil
	})
}

// draw shows available pods as a bar for each image.
func draw(counts map[string]int) string {
	var parts []string
	for _, image := range []string{"web:1", "web:2", "web:3"} {
		if n := counts[image]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s %d", image, strings.Repeat("█", n), n))
		}
	}
	if len(parts) == 0 {
		return "no pod is available yet"
	}
	return strings.Join(parts, "  ")
}
