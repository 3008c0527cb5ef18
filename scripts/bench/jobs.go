package main

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

const (
	// bigCompletions are the pods of one Job, of which bigParallelism run at a time.
	bigCompletions, bigParallelism = 1000, 100
	// manyJobs of manyCompletions pods each, all at once, come after it.
	manyJobs, manyCompletions = 200, 5
)

// jobPhases: Jobs, from the first request until the last status says that its Job is complete. A pod
// succeeds a second after it was started. Writes are counted by kind, because two for each pod cannot be
// saved: it is created, and its finalizer is taken off. Events are counted until no more come.
var jobPhases = []phase{{name: "jobs", run: (*trial).runJobs, rows: slices.Concat(
	rowsOfJobs("job", "Job of 1000 pods, 100 at a time: over", "    statuses of the Job", bigCompletions),
	rowsOfJobs("jobs", "200 Jobs x 5 pods at once: all over", "    statuses of Jobs", manyJobs*manyCompletions),
)}}

func rowsOfJobs(name, over, statuses string, pods float64) []row {
	requests := func(of string) string { return name + "/requests/" + of }
	return []row{
		{key: name + "/over", name: over, unit: "s"},
		{key: name + "/cpu", name: "  CPU for each pod", unit: "ms", per: pods},
		{key: name + "/writes", name: "  API writes for each pod", per: pods},
		{key: requests("create pods"), name: "    pods created", per: pods},
		{key: requests("patch pods") + " + " + requests("update pods") + " + " + requests("delete pods"),
			name: "    pods patched or deleted", per: pods},
		{key: requests("update jobs") + " + " + requests("patch jobs"), name: statuses, per: pods},
		{key: requests("create events") + " + " + requests("patch events"), name: "    events", per: pods},
	}
}

// runJobs runs one Job of many pods, and then many of few.
func (t *trial) runJobs() {
	t.lead()
	watch, stop := t.observe(jobs)
	defer stop()
	t.create(newJob("canary", "canary", 1, 1)) // one that is over shows that the loop runs
	t.await(watch.when("canary", tally{completed: 1}))
	t.measureJobs(watch, "job", 1, bigCompletions, bigParallelism)
	t.measureJobs(watch, "jobs", manyJobs, manyCompletions, manyCompletions)
	t.stop()
}

// measureJobs measures n Jobs in a namespace that is called as what is measured.
func (t *trial) measureJobs(watch *watch, name string, n int, completions, parallelism int32) {
	s := t.measure(name, func() {
		inParallel(n, fewClients, func(i int) {
			t.create(newJob(name, fmt.Sprintf("job-%03d", i), completions, parallelism))
		})
	}, marks{"over": watch.when(name, tally{completed: n})})
	t.Values[name+"/writes"] = float64(t.awaitRest(s))
}

// newJob returns a Job whose pods succeed a second after they were started.
func newJob(namespace, name string, completions, parallelism int32) *batchv1.Job {
	template := newTemplate(name)
	template.Annotations = map[string]string{"lab.kcm-book.io/run-for": "1s"}
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{ObjectMeta: named(namespace, name), Spec: batchv1.JobSpec{
		Completions: &completions, Parallelism: &parallelism, Template: template,
	}}
}

// awaitRest lengthens a span until nothing is written for three seconds, because events are written after
// what they are about, and returns how many writes are in it. The Lease's, which time brings, are not.
func (t *trial) awaitRest(s *span) int {
	for {
		asked := time.Now()
		t.sleep(3 * time.Second)
		s.end = time.Now()
		writes := slices.DeleteFunc(t.requests(), func(e cluster.AuditEvent) bool {
			return e.Verb == "get" || e.Resource == "leases" || e.Time.Before(s.begin) || e.Time.After(s.end)
		})
		if !slices.ContainsFunc(writes, func(e cluster.AuditEvent) bool { return e.Time.After(asked) }) {
			return len(writes)
		}
	}
}
