package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/kcm/trace"
)

// heardPairs are how many rollouts are counted in which somebody reads the trace,
// each after one in which nobody does. One pair more comes before them, in which
// connections are made and buffers grow.
const heardPairs = 3

// listen rolls out the big Deployment in turns while nobody listens and while
// somebody does, with one process and on one cluster: what reading costs is less
// than the difference between two processes.
func (t *trial) listen(ctx context.Context) error {
	namespaces := make([]string, 2*(1+heardPairs))
	for i := range namespaces {
		namespaces[i] = fmt.Sprintf("listening-%d", i)
		if err := t.createNamespace(ctx, namespaces[i]); err != nil {
			return err
		}
	}
	if err := t.lead(ctx); err != nil {
		return err
	}
	sums := map[string]float64{}
	for i, namespace := range namespaces {
		prefix, run := unheard, (*trial).createPods
		if i%2 == 1 {
			prefix, run = heard, (*trial).createHeard
		}
		if err := run(t, ctx, namespace, bigReplicas, prefix); err != nil {
			return err
		}
		if i >= 2 {
			for _, key := range []string{keyPodCPU, keyReady} {
				sums[prefix+key] += t.result.Values[prefix+key]
			}
		}
		gone := t.watch.existing(namespace, 0)
		if err := t.client.AppsV1().Deployments(namespace).Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
			return err
		}
		if _, err := t.watch.await(ctx, "no pod is left", namespace, gone); err != nil {
			return err
		}
	}
	for key, sum := range sums { // in place of what the last one has cost
		t.result.Values[key] = sum / heardPairs
	}
	return nil
}

// createHeard is createPods while somebody reads the trace of the leader, as the live
// view does: each line as it comes.
func (t *trial) createHeard(ctx context.Context, namespace string, n int, prefix string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+t.profiler.address+trace.Path, nil)
	if err != nil {
		return err
	}
	response, err := t.profiler.client.Do(request)
	if err != nil {
		return fmt.Errorf("read the trace: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("read the trace: %s", response.Status)
	}
	steps := make(chan int, 1)
	go func() {
		read := 0
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			read++
		}
		steps <- read
	}()
	if err := t.createPods(ctx, namespace, n, prefix); err != nil {
		return err
	}
	cancel()
	t.say("%d steps were read of the trace", <-steps)
	return nil
}
