package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/kcm/app"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/process"
)

// trial is a phase of one program on one cluster. Its methods return no errors: what fails ends the trial.
type trial struct {
	program
	*watch
	*table
	ctx     context.Context
	cluster *cluster.Cluster
	client  kubernetes.Interface
	// flags are those that do not depend on the cluster.
	flags []string
	// leader is the replica that leads; all are those that were started.
	leader *process.Process
	all    []*process.Process
	spans  []span
}

// wideLimits keep the rate limits of both out of what is measured.
var wideLimits = []string{"--kube-api-qps=1000", "--kube-api-burst=2000"}

func loops(names ...string) string { return "--controllers=" + strings.Join(names, ",") }

// try runs a phase with a program on a cluster of its own, and adds what it measures to figures.
func try(ctx context.Context, run func(*trial), p program, figures *table) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer catch(&err)
	c, err := cluster.Start(ctx, cluster.Options{Nodes: simulatedNodes}) // each has room for 1000 pods
	must(err)
	defer func() {
		stop() // so that the watch ends before what it watches
		err = errors.Join(err, c.Close())
	}()
	config := c.RESTConfig(cluster.Admin)
	config.UserAgent = "bench"
	config.WarningHandler = rest.NoWarnings{}        // that Endpoints are deprecated
	config.ContentType = runtime.ContentTypeProtobuf // as controllers speak
	client, err := kubernetes.NewForConfig(config)
	must(err)
	t := &trial{program: p, watch: observe(ctx, client), table: figures, ctx: ctx, cluster: c, client: client,
		flags: append([]string{loops(app.KnownControllers()...)}, wideLimits...)}
	defer func() {
		for _, p := range t.all {
			p.Kill()
		}
	}()
	run(t)
	t.countRequests()
	return nil
}

// failure carries an error from a step of a trial to its end, because each step needs those before it.
type failure struct{ error }

func must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// catch is deferred where a failure becomes an error again.
func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.error
	default:
		panic(r)
	}
}

// manyClients create small objects at the same time, and fewClients those that bring pods.
const manyClients, fewClients = 50, 10

// inParallel calls do with each number below n, for as many at a time as there are workers, until one has failed.
func inParallel(n, workers int, do func(int)) {
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(workers)
	for i := 0; i < n && ctx.Err() == nil; i++ {
		group.Go(func() (err error) {
			defer catch(&err)
			do(i)
			return nil
		})
	}
	must(group.Wait())
}

// patience is how long anything may take before bench gives up. At its own rate limit the original
// needs more than eight minutes for the orphans.
const patience = 15 * time.Minute

// await waits for a moment and returns its time. When that takes too long, or the leader has ended by itself, the
// error tells what was seen instead.
func (t *trial) await(m *moment) time.Time {
	var ended <-chan struct{}
	if t.leader != nil {
		ended = t.leader.Exited
	}
	var err error
	select {
	case at := <-m.reached:
		return at
	case <-ended:
		err = fmt.Errorf("%s has ended (%v), and nobody has asked it to; it said in the end:\n%s",
			t.name, t.leader.Cmd.ProcessState, process.LastLines(t.leader.Log.String(), 20))
	case <-time.After(patience):
		err = fmt.Errorf("given up after %s", patience)
	case <-t.ctx.Done():
		err = t.ctx.Err()
	}
	panic(failure{fmt.Errorf("waiting for %v in namespace %q, with %v: %w", m.want, m.namespace, t.in(m.namespace), err)})
}

func (t *trial) start(p program, flags ...string) *process.Process {
	cmd := exec.Command(p.path, slices.Concat(cluster.ManagerFlags(t.cluster, p.user), []string{
		"--use-service-account-credentials=true", "--leader-elect=true", "--bind-address=127.0.0.1", "--secure-port=0",
	}, flags)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to handle
	started, err := process.Start(cmd)
	must(err)
	t.all = append(t.all, started)
	return started
}

// usage returns what a process has taken from the machine so far: user and system time in seconds, and
// memory in bytes.
func usage(p *process.Process) (cpu, resident float64) {
	proc, err := procfs.NewProc(p.Cmd.Process.Pid)
	must(err)
	stat, err := proc.Stat()
	must(err)
	return stat.CPUTime(), float64(stat.ResidentMemory())
}

// lead starts a replica that leads. Whoever led before has ended, and nobody waits for its Lease.
func (t *trial) lead() {
	t.delete(&coordinationv1.Lease{ObjectMeta: named("kube-system", "kube-controller-manager")})
	t.leader = t.start(t.program, t.flags...)
}

// end sends a signal to the replica that leads, and waits until it has ended.
func (t *trial) end(signal syscall.Signal) {
	must(t.leader.Cmd.Process.Signal(signal))
	<-t.leader.Exited
}

// marks are the moments that end what is measured, each with its name.
type marks map[string]*moment

// span is a time in which something was measured, and of how many its requests are for each.
type span struct {
	name, requests string // what was measured, and the row of its requests
	each           int
	begin, end     time.Time
}

// measure starts something and waits for the moments that end it. It says how long each took; without any, until start
// had returned. If each is not 0 it also says what the leader has used meanwhile for each of so many, and its memory.
func (t *trial) measure(name string, each int, start func(), until marks) {
	var before float64
	if each > 0 {
		before, _ = usage(t.leader)
	}
	begin := time.Now()
	start()
	if until == nil {
		t.note(name, "over", "s", time.Since(begin).Seconds())
	}
	for _, mark := range slices.Sorted(maps.Keys(until)) {
		t.note(name, mark, "s", t.await(until[mark]).Sub(begin).Seconds())
	}
	if each == 0 {
		return
	}
	ofEach := ""
	if each > 1 {
		ofEach = fmt.Sprintf(" for each of %d", each)
	}
	s := span{name, "API requests" + ofEach, each, begin, time.Now()}
	t.spans = append(t.spans, s)
	cpu, resident := usage(t.leader)
	t.note(name, "CPU"+ofEach, "ms", 1000*(cpu-before)/float64(each))
	t.row(name, s.requests, "") // is filled in the end
	t.note(name, "RSS", "MiB", resident/(1<<20))
}

// note says a figure, and keeps it for the table.
func (t *trial) note(of, what, unit string, value float64) {
	fmt.Printf("%s, %s: %s %s\n", of, what, digits(value), unit)
	values := t.row(of, what, unit).values
	values[t.name] = append(values[t.name], value)
}

// countRequests counts the requests in each span, and says of which verbs and resources they were,
// and what was answered.
func (t *trial) countRequests() {
	requests := t.requests()
	for _, s := range t.spans {
		n, kinds := 0, map[string]int{}
		for _, e := range requests {
			if at := e.RequestReceivedTimestamp.Time; !at.Before(s.begin) && !at.After(s.end) {
				n++
				kinds[fmt.Sprint(e.Verb, " ", e.ObjectRef.Resource, " ", e.ResponseStatus.Code)]++
			}
		}
		t.note(s.name, s.requests, "", float64(n)/float64(s.each))
		fmt.Printf("%s, requests: %v\n", s.name, kinds)
	}
}

// requests returns the controller manager's requests, from the audit log. Those for the Lease, which time
// brings, are not among them.
func (t *trial) requests() []cluster.AuditEvent {
	events, err := t.cluster.AuditEvents(func(e *cluster.AuditEvent) bool {
		return isControllerManager(e.User.Username) && e.ObjectRef.Resource != "leases"
	})
	must(err)
	return events
}

// isControllerManager tells whether a user is the controller manager or one of its loops. Nobody else
// on the cluster goes by these names.
func isControllerManager(user string) bool {
	return user == "system:kube-controller-manager" || strings.HasPrefix(user, "system:serviceaccount:kube-system:")
}

// awaitRest waits until nothing is written for three seconds, because events are written after what they are about.
func (t *trial) awaitRest() {
	for before, now := -1, 0; now > before; before, now = now, len(t.requests()) {
		time.Sleep(3 * time.Second)
	}
}
