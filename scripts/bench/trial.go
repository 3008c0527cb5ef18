package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
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
	ctx     context.Context
	died    context.CancelCauseFunc // ends the trial when a manager has ended by itself
	cluster *cluster.Cluster
	client  kubernetes.Interface
	// flags are those that do not depend on the cluster.
	flags []string
	// leader is the replica that leads; all are those that were started.
	leader  *manager
	all     []*manager
	spans   []*span
	figures table
}

// wideLimits keep the rate limits of both out of what is measured.
var wideLimits = []string{"--kube-api-qps=1000", "--kube-api-burst=2000"}

func loops(names ...string) string { return "--controllers=" + strings.Join(names, ",") }

// try runs a phase with a program on a cluster of its own, and adds what it has measured to figures.
func try(ctx context.Context, run func(*trial), p program, figures *table) (err error) {
	ctx, died := context.WithCancelCause(ctx)
	defer died(nil)
	defer func() {
		if errors.Is(err, context.Canceled) {
			err = context.Cause(ctx) // it says why
		}
	}()
	defer catch(&err)
	c, err := cluster.Start(ctx, cluster.WithNodes(10)) // each has room for 1000 pods
	must(err)
	defer func() {
		died(nil) // so that the watch ends before what it watches
		err = errors.Join(err, c.Close())
	}()
	config := c.RESTConfig(cluster.Admin)
	config.UserAgent = "bench"
	config.WarningHandler = rest.NoWarnings{}        // that Endpoints are deprecated
	config.ContentType = runtime.ContentTypeProtobuf // as controllers speak
	client, err := kubernetes.NewForConfig(config)
	must(err)
	t := &trial{program: p, watch: observe(ctx, client), ctx: ctx, died: died, cluster: c, client: client,
		flags: append([]string{loops(app.KnownControllers()...)}, wideLimits...)}
	defer func() {
		for _, m := range t.all {
			m.end(syscall.SIGKILL)
		}
	}()
	run(t)
	t.countRequests()
	t.sumUp(figures)
	return nil
}

// sumUp adds what a trial has measured to what others have, and says it.
func (t *trial) sumUp(figures *table) {
	for _, r := range t.figures {
		var sum float64
		for _, value := range r.values[t.name] {
			sum += value
		}
		mean := sum / float64(len(r.values[t.name]))
		figures.row(r.of, r.what, r.unit).add(t.name, mean)
		fmt.Printf("%s, %s: %s %s\n", r.of, r.what, digits(mean), r.unit)
	}
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

// await waits until something is so, which is not measured.
func (t *trial) await(m *moment) {
	_, err := m.await(t.ctx)
	must(err)
}

func (t *trial) sleep(d time.Duration) {
	select {
	case <-t.ctx.Done():
		must(context.Cause(t.ctx))
	case <-time.After(d):
	}
}

// manager is a controller manager that was started.
type manager struct {
	*process.Process
	// asked says that it was asked to end.
	asked atomic.Bool
}

// start starts a manager on the cluster.
func (t *trial) start(p program, flags ...string) *manager {
	return t.run(exec.Command(p.path, slices.Concat(cluster.ManagerFlags(t.cluster, p.user), []string{
		"--use-service-account-credentials=true", "--leader-elect=true", "--bind-address=127.0.0.1", "--secure-port=0",
	}, flags)...))
}

// run starts a program, and ends the trial if it ends without having been asked to.
func (t *trial) run(cmd *exec.Cmd) *manager {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to handle
	p, err := process.Start(cmd)
	must(err)
	m := &manager{Process: p}
	t.all = append(t.all, m)
	go func() {
		<-m.Exited
		if !m.asked.Load() {
			t.died(fmt.Errorf("%s has ended (%v), and nobody has asked it to; it said in the end:\n%s",
				cmd.Path, cmd.ProcessState, process.LastLines(m.Log.String(), 20)))
		}
	}()
	return m
}

// end sends a signal and waits until the manager has ended, for which it has half a minute.
func (m *manager) end(signal syscall.Signal) {
	m.asked.Store(true)
	m.Cmd.Process.Signal(signal) // one that has ended needs none
	select {
	case <-m.Exited:
	case <-time.After(30 * time.Second):
		m.Kill()
	}
}

// usage returns what a manager has taken from the machine so far: user and system time in seconds, and
// memory in bytes. That is nothing where there is no manager.
func (m *manager) usage() (cpu, resident float64) {
	if m == nil {
		return 0, 0
	}
	proc, err := procfs.NewProc(m.Cmd.Process.Pid)
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

// stop ends the replica that leads.
func (t *trial) stop() {
	t.leader.end(syscall.SIGTERM)
	t.leader = nil
}

// marks are the moments that end what is measured, each with its name.
type marks map[string]*moment

// span is a time in which something was measured, and of how many its requests are for each.
type span struct {
	name       string
	each       int
	begin, end time.Time
	requests   *row
}

// measure starts something and waits for the moments that end it. It says how long each took; without any,
// until start had returned. If each is not 0 it also says what the leader has used meanwhile for each of so
// many, and its memory. What is measured again under the same name counts with its mean.
func (t *trial) measure(name string, each int, start func(), until marks) {
	s := &span{name: name, each: each}
	before, _ := t.leader.usage()
	s.begin = time.Now()
	start()
	if until == nil {
		t.note(name, "over", "s", time.Since(s.begin).Seconds())
	}
	for _, mark := range slices.Sorted(maps.Keys(until)) {
		at, err := until[mark].await(t.ctx)
		must(err)
		t.note(name, mark, "s", at.Sub(s.begin).Seconds())
	}
	if each == 0 {
		return
	}
	s.end = time.Now()
	cpu, resident := t.leader.usage()
	t.note(name, "CPU"+ofEach(each), "ms", 1000*(cpu-before)/float64(each))
	s.requests = t.figures.row(name, "API requests"+ofEach(each), "")
	t.spans = append(t.spans, s)
	t.note(name, "RSS", "MiB", resident/(1<<20))
}

func ofEach(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" for each of %d", n)
}

func (t *trial) note(of, what, unit string, value float64) {
	t.figures.row(of, what, unit).add(t.name, value)
}

// countRequests counts the requests in each span, and says of which verbs and resources they were.
func (t *trial) countRequests() {
	requests := t.requests()
	kinds := map[string]map[string]int{}
	for _, s := range t.spans {
		if kinds[s.name] == nil {
			kinds[s.name] = map[string]int{}
		}
		n := 0
		for _, e := range requests {
			if !e.Time.Before(s.begin) && !e.Time.After(s.end) {
				n++
				kinds[s.name][e.Verb+" "+e.Resource]++
			}
		}
		s.requests.add(t.name, float64(n)/float64(s.each))
	}
	for _, of := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Printf("%s, requests: %v\n", of, kinds[of])
	}
}

// requests returns the controller manager's requests, from the audit log. Those for the Lease, which time
// brings, are not among them.
func (t *trial) requests() []cluster.AuditEvent {
	events, err := t.cluster.AuditEvents(func(e cluster.AuditEvent) bool {
		return isControllerManager(e.User) && e.Resource != "leases"
	})
	must(err)
	return events
}

// isControllerManager tells whether a user is the controller manager or one of its loops. Nobody else
// on the cluster goes by these names.
func isControllerManager(user string) bool {
	return user == "system:kube-controller-manager" || strings.HasPrefix(user, "system:serviceaccount:kube-system:")
}

// awaitRest waits until nothing is written for three seconds, because events are written after what they
// are about.
func (t *trial) awaitRest() {
	for before, now := -1, 0; now > before; before, now = now, len(t.requests()) {
		t.sleep(3 * time.Second)
	}
}
