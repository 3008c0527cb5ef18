// Command bench measures kcm beside the original kube-controller-manager.
//
// Both run in turns, each time on a fresh lab cluster, as processes with the
// same flags and the same loops, and do the same work: they come up, roll out
// a Deployment of 1000 pods, update it, scale it to zero, roll out 200
// Deployments of 10 pods, and hand over to a second replica, once asked to
// and once killed. A third cluster in each round has no controller manager: a
// plain client creates 1000 pods there, which is the limit of what can be had.
// Then each gets more clusters: one on which it has its own rate limits, and
// deletes, one on which it rolls out among ever more other Deployments, one for
// a relabel of 1000 pods, a quota over 10,000 and a Deployment of 5000, one for a
// a relabel of 1000 pods, a quota over 10,000 and a Deployment of 5000, one for a
// DaemonSet of 1000 nodes, and one each for Jobs and for Services. One for kcm alone shows what
// reading its trace costs.
//
// # What is measured, and how
//
// Times are from just before the request that starts something to the watch
// event that shows it done; nothing is polled. The watch is bench's own, so its
// cost is the same for both.
//
//   - cold start: from exec until each loop has done its first work. The work
//     waits from before: a Deployment, a ReplicaSet and a ReplicationController
//     of one pod each, a namespace without the ServiceAccount "default" and the
//     ConfigMap kube-root-ca.crt, and a token Secret without token. A loop has
//     started when its part of that is done. Health checks and metrics do not
//     say so: both programs report a loop as running before its caches are
//     filled.
//
//   - pods exist, pods are Ready: by the pods themselves, not by the status of
//     the Deployment. kwok plays the nodes; a pod is Ready a second after it
//     was started at the earliest.
//
//   - rolling update: until the status says what `kubectl rollout status`
//     waits for.
//
//   - scale to zero: until the last pod is gone.
//
//   - failover: from the signal to the leader until another replica has created
//     the pod of a ReplicaSet that was created when the leader's process had
//     ended. The other replica was waiting for the Lease; the Lease's times are
//     the default ones. The original is also run with the feature gate that has
//     it release the Lease.
//
//   - memory: resident set after the 1000 pods are Ready, and its peak at the
//     end of the load, which is everything but cold start and failover. The
//     original runs only the loops that kcm has; once in each round it runs all
//     of its own, and its memory with 1000 pods is taken then, too.
//
//   - CPU: user and system time of the process during the load. CPU and API
//     writes for each pod are those until the Deployment is complete.
//
//   - trace: the 1000 pods four times while nobody reads kcm's trace and, in turns
//     with these, four times while somebody does, with one process. The first pair
//     is not counted.
//
//   - requests: those in the API server's audit log during the load by the
//     controller manager and the ServiceAccounts of its loops. Watches are not
//     in that log.
//
//   - namespace: 1000 pods of 200 Deployments and 1000 ConfigMaps, with the events
//     that come of it, from the request to delete the namespace until it is gone.
//
//   - garbage collection: 50,000 ConfigMaps with an owner each. The heap is what is
//     in use after a collection of Go's, before and after they were created, and
//     the collector has seen them when it has deleted one that came last. Then the
//     owner of 10,000 is deleted in the background. What takes longest there is a
//     rate limit, so one round is enough.
//
//   - growth: 100 rollouts of ten Deployments of one pod, in a namespace with 200,
//     1000 and 2000 others that have no pods and ten old ReplicaSets each. CPU is
//     the process's, time is from the update until the status says that the
//     rollout is complete, both for one rollout. One round is enough.
//
//   - restart: with those 2000 Deployments and 20,000 ReplicaSets, on which there
//     is nothing to do, and one Deployment that waits for its pod, from exec until
//     that exists; nobody holds the Lease. Memory is the peak when the garbage
//     collector has seen a ConfigMap that came last. How long a plain client takes
//     to list the Deployments and ReplicaSets stands beside it.
//
//   - daemons: a DaemonSet of 1000 nodes beside 100 others that want nodes which are
//     not there, from its creation until all its pods are Ready. Then all nodes get a
//     label that nobody asks for, and CPU is the process's until a DaemonSet that was
//     created afterwards has its pod. Then they lose the label that brought the pods,
//     until the last pod is gone. One round is enough.
//
//   - jobs: a Job of 1000 completions at parallelism 100, and then 200 Jobs of five
//     pods each at once, from the first request until the last status says that its
//     Job is complete. A pod succeeds a second after it was started. Writes are
//     counted by kind, because two for each pod cannot be saved: it is created, and
//     its finalizer is taken off. Events are counted until no more come.
//
//   - relabel: 50 goroutines change the label of 1000 pods of a ReplicaSet, which
//     is the limit, until as many others are Ready.
//
//   - services: a headless Service with a Deployment of 1000 pods behind it, from
//     its creation and from an update until EndpointSlices and Endpoints have all
//     pods and no others. How long after the last pod is Ready all that are and no
//     others are told to be stands beside it. Both run no other loops, and the pods are
//     the original's in both cases. Writes are those of slices and Endpoints, their
//     size is that of what bench's watch brings. One round is enough.
//
//   - among: a pod whose label is changed 200 times, so that it leaves its Service
//     and comes back, among 10 other Services of its namespace and among 1000: the
//     time until both forms tell it, and the process's CPU, for each change. One
//     round is enough.
//
//   - quota: 10,000 pods that no scheduler takes, then a quota of pods, CPU and
//     memory, until its status says how many there are; then 100 of them are
//     deleted one after the other, each until the status says one less. CPU is the
//     process's meanwhile, and has in it what its other loops do about a pod that
//     goes.
//
// After the counted rounds comes one that is not counted, in which CPU and heap
// profiles are taken of both.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

func main() {
	b := &bench{}
	flag.StringVar(&b.programs.kcm, "kcm", "bin/kcm", "the kcm `program` to measure")
	flag.StringVar(&b.programs.original, "original", "bin/kube-controller-manager", "the original `program` to measure")
	flag.StringVar(&b.out, "out", "build/bench", "`directory` for the results")
	flag.IntVar(&b.rounds, "rounds", 3, "how many rounds are counted")
	flag.BoolVar(&b.profile, "profile", true, "take profiles in a round of their own")
	only := flag.String("only", "", "run only phases that match this `regexp`: "+strings.Join(choices(), ", "))
	flag.Parse()
	// A second Ctrl-C ends bench at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, b, *only); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted; everything that was started is stopped")
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// choices returns what -only chooses among.
func choices() []string {
	names := []string{"limit", "cold"}
	for _, p := range slices.Concat(loadPhases, failoverPhases, deletionPhases, listeningPhases, growthPhases, sizePhases, daemonPhases, jobPhases, servicePhases) {
		names = append(names, p.name)
	}
	return names
}

func run(ctx context.Context, b *bench, only string) error {
	if runtime.GOOS != "linux" {
		return errors.New("memory and CPU time are read from /proc, so this needs Linux")
	}
	if b.rounds < 1 {
		return fmt.Errorf("-rounds=%d: must be at least 1", b.rounds)
	}
	var err error
	if b.only, err = regexp.Compile(only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if !slices.ContainsFunc(choices(), b.only.MatchString) {
		return fmt.Errorf("-only=%s matches none of %s", only, strings.Join(choices(), ", "))
	}
	return b.run(ctx)
}
