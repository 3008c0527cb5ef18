package main

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/labs/cluster"
)

const (
	// bigCompletions are the pods of one Job, of which bigParallelism run at a time.
	bigCompletions = 1000
	bigParallelism = 100
	// manyJobs of manyCompletions pods each, all at once, come after it.
	manyJobs        = 200
	manyCompletions = 5
)

// ends counts the Jobs that are over, by namespace.
type ends struct {
	moments
	jobs map[string]int
}

func (t *trial) watchEnds(ctx context.Context) (e *ends, stop func(), err error) {
	e = &ends{jobs: map[string]int{}}
	stop, err = startInformers(ctx, t.client, func(factory informers.SharedInformerFactory) []cache.InformerSynced {
		return []cache.InformerSynced{
			controller.Handle(factory.Batch().V1().Jobs().Informer(), controller.Handlers[*batchv1.Job]{
				Update: func(old, job *batchv1.Job) {
					if isOver(job) && !isOver(old) {
						e.change(func() { e.jobs[job.Namespace]++ })
					}
				},
			}),
		}
	})
	return e, stop, err
}

func isOver(job *batchv1.Job) bool { return job.Status.CompletionTime != nil }

// await waits until n Jobs of a namespace are over.
func (e *ends) await(ctx context.Context, namespace string, n int) (time.Time, error) {
	over := e.when(func() bool { return e.jobs[namespace] == n })
	return e.wait(ctx, fmt.Sprintf("%d Jobs are over", n), over, func() string { return fmt.Sprintf("%d", e.jobs[namespace]) })
}

// runJobs runs one Job of many pods, and then many of few.
func (t *trial) runJobs(ctx context.Context) error {
	if err := t.lead(ctx); err != nil {
		return err
	}
	defer func() { t.leader.end(syscall.SIGTERM) }()
	ends, stop, err := t.watchEnds(ctx)
	if err != nil {
		return err
	}
	defer stop()
	// One that is over shows that the loop runs.
	if err := t.createJob(ctx, canaryNamespace, "canary", 1, 1); err != nil {
		return err
	}
	if _, err := ends.await(ctx, canaryNamespace, 1); err != nil {
		return err
	}
	err = t.measureJobs(ctx, ends, jobNamespace, 1, bigCompletions, keyJob, func() error {
		return t.createJob(ctx, jobNamespace, "big", bigCompletions, bigParallelism)
	})
	if err != nil {
		return err
	}
	return t.measureJobs(ctx, ends, manyJobsNamespace, manyJobs, manyCompletions, keyManyJobs, func() error {
		return inParallel(ctx, manyJobs, manyClients, func(ctx context.Context, i int) error {
			return t.createJob(ctx, manyJobsNamespace, fmt.Sprintf("job-%03d", i), manyCompletions, manyCompletions)
		})
	})
}

// createJob creates a Job whose pods succeed a second after they were started.
func (t *trial) createJob(ctx context.Context, namespace, name string, completions, parallelism int32) error {
	template := newTemplate(map[string]string{"app": name})
	template.Annotations = map[string]string{"lab.kcm-book.io/run-for": "1s"}
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	_, err := t.client.BatchV1().Jobs(namespace).Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       batchv1.JobSpec{Completions: &completions, Parallelism: &parallelism, Template: template},
	}, metav1.CreateOptions{})
	return err
}

// measureJobs creates n Jobs of as many pods each, and keeps what they have cost
// when all are over under keys that begin with a prefix.
func (t *trial) measureJobs(ctx context.Context, ends *ends, namespace string, n, completions int, prefix string, create func() error) error {
	before, err := t.leader.usage()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := create(); err != nil {
		return err
	}
	at, err := ends.await(ctx, namespace, n)
	if err != nil {
		return err
	}
	used, err := t.leader.usage()
	if err != nil {
		return err
	}
	requests, err := t.requestsUntilRest(ctx, begin)
	if err != nil {
		return err
	}
	pods := float64(n * completions)
	values := t.result.Values
	values[prefix+keyJobCPU] = 1000 * (used.cpu - before.cpu) / pods
	for _, kind := range []string{keyJobWrites, keyJobPods, keyJobPatches, keyJobStatuses, keyJobEvents} {
		values[prefix+kind] = 0 // so that there is a row where nothing was written, too
	}
	for _, r := range requests {
		if kindOfWrite(r) != "" {
			values[prefix+keyJobWrites] += 1 / pods
			values[prefix+kindOfWrite(r)] += 1 / pods
		}
	}
	t.set(prefix, at.Sub(begin))
	t.say("%d Jobs of %d pods: over after %.2f s; for each pod %.2f ms of CPU and %.3f API writes, of which %.3f statuses and %.3f events", n, completions,
		at.Sub(begin).Seconds(), values[prefix+keyJobCPU], values[prefix+keyJobWrites], values[prefix+keyJobStatuses], values[prefix+keyJobEvents])
	return nil
}

// lull is for how long nothing is written when all is done.
const lull = 3 * time.Second

// requestsUntilRest returns the requests of the controller manager since begin. It
// waits for the events, which are written after what they are about.
func (t *trial) requestsUntilRest(ctx context.Context, begin time.Time) ([]cluster.AuditEvent, error) {
	for {
		asked := time.Now()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lull):
		}
		requests, err := t.requests(begin, time.Now())
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(requests, func(r cluster.AuditEvent) bool { return r.Time.After(asked) && kindOfWrite(r) != "" }) {
			return requests, nil
		}
	}
}

// kindOfWrite returns the key under which a write of the controller manager
// counts, or nothing for what is no write, or the Lease's, which time brings.
func kindOfWrite(r cluster.AuditEvent) string {
	switch {
	case r.Verb == "get" || r.Resource == "leases":
		return ""
	case r.Resource == "pods" && r.Verb == "create":
		return keyJobPods
	case r.Resource == "pods":
		return keyJobPatches
	case r.Resource == "jobs":
		return keyJobStatuses
	case r.Resource == "events":
		return keyJobEvents
	}
	return keyJobOthers
}
