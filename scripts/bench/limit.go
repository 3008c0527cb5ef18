package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// limitClients create pods at the same time.
const limitClients = 50

// createRaw creates the pods of the big Deployment without a controller
// manager: no controller can be faster on this cluster.
func (t *trial) createRaw(ctx context.Context) error {
	exist := t.watch.existing(limitNamespace, bigReplicas)
	template := newTemplate(map[string]string{"app": "web"})
	begin := time.Now()
	err := inParallel(ctx, bigReplicas, limitClients, func(ctx context.Context, i int) error {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Name = fmt.Sprintf("web-%04d", i)
		_, err := t.client.CoreV1().Pods(limitNamespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	existed, err := t.watch.await(ctx, "all pods exist", limitNamespace, exist)
	if err != nil {
		return err
	}
	t.set(keyExist, existed.Sub(begin))
	t.result.Values[keyRate] = bigReplicas / existed.Sub(begin).Seconds()
	t.say("1000 pods by a plain client: exist after %.2f s, %.0f pods/s", t.result.Values[keyExist], t.result.Values[keyRate])
	return nil
}
