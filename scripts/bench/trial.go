package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

// trial is one subject on one cluster. Its methods return no errors: what fails ends the trial.
type trial struct {
	plan
	subject
	*result
	*watch  // of pods and Deployments
	bench   *bench
	ctx     context.Context
	died    func(error) // ends the trial when a manager has ended by itself
	cluster *cluster.Cluster
	client  kubernetes.Interface
	server  *server // nil where managers serve nothing
	// leader is the replica that leads; all are those that were started.
	leader *manager
	all    []*manager
	// spans are those whose requests are not counted yet, and load that of the load.
	spans []*span
	load  *span
	// atDefaults says that replicas are started with their own rate limits.
	atDefaults bool
	// neighbours are how many Deployments without pods there are.
	neighbours int
}

// try runs the phases of a plan for a subject on a cluster of its own.
func (b *bench) try(ctx context.Context, p plan, s subject, r *result) (err error) {
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
	defer func() { err = errors.Join(err, c.Close()) }()
	config := c.RESTConfig(cluster.Admin)
	config.UserAgent = "bench"
	config.ContentType = runtime.ContentTypeProtobuf // as controllers speak
	client, err := kubernetes.NewForConfig(config)
	must(err)
	t := &trial{plan: p, subject: s, result: r, bench: b, ctx: ctx, died: died, cluster: c, client: client}
	if t.serves {
		t.server = newServer(c)
	}
	t.prepare()
	watch, stop := t.observe(pods, rollouts)
	t.watch = watch
	defer stop()
	defer func() {
		for _, m := range t.all {
			m.end(syscall.SIGKILL)
		}
	}()
	for _, p := range t.phases {
		t.profiled(p)
		if slices.ContainsFunc(p.rows, func(r row) bool { return strings.Contains(r.key, "/requests") }) {
			t.countRequests()
		}
		for _, row := range p.rows {
			value, ok := row.value(t.Values, row.key)
			switch {
			case !ok && !strings.Contains(row.key, "/requests/"):
				return fmt.Errorf("phase %q has not measured %s", p.name, row.key)
			case ok && row.beside == "":
				t.say("%s: %.2f %s", row.name, value, row.unit)
			}
		}
	}
	return nil
}

// say prints a line of progress. The round of profiles is 0.
func (t *trial) say(format string, args ...any) {
	fmt.Printf("%6.1f s  round %d/%d  %-8s  ", time.Since(t.bench.began).Seconds(), t.Round, t.bench.rounds, t.name)
	fmt.Println(strings.TrimSpace(fmt.Sprintf(format, args...)))
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

// start starts a manager.
func (t *trial) start(s subject) *manager {
	flags := slices.Concat(s.sharedFlags(), s.more, cluster.ManagerFlags(t.cluster, s.user), t.server.flags())
	if !t.atDefaults {
		flags = append(flags, wideLimits...)
	}
	name := fmt.Sprintf("round-%d-%s-%s-%d.log", t.Round, s.name, t.about, len(t.all)+1)
	m, err := startManager(s.program, flags, filepath.Join(t.bench.out, "logs", name), t.died)
	must(err)
	t.all = append(t.all, m)
	return m
}

// lead starts a replica that leads. Whoever led before has ended, and nobody waits for its Lease.
func (t *trial) lead() {
	t.freeLease()
	t.leader = t.start(t.subject)
}

func (t *trial) freeLease() {
	t.delete(&coordinationv1.Lease{ObjectMeta: named("kube-system", "kube-controller-manager")})
}

// stop ends the replica that leads.
func (t *trial) stop() {
	t.leader.end(syscall.SIGTERM)
	t.leader = nil
}

// marks are the moments that end what is measured, each with its name.
type marks map[string]*moment

// span is a time in which something was measured.
type span struct {
	name       string
	begin, end time.Time
	before     usage
}

// measure starts something and waits for the moments that end it. Under NAME/MARK it keeps how many
// seconds that took, under NAME/started when start had returned, and what the leader has used meanwhile
// under NAME/cpu, in seconds, and NAME/requests; its memory is NAME/rss and NAME/peak, in bytes. What is
// measured again under the same name is added.
func (t *trial) measure(name string, start func(), until marks) *span {
	s := t.begin(name)
	start()
	t.Values[name+"/started"] += time.Since(s.begin).Seconds()
	for mark, moment := range until {
		at, err := moment.await(t.ctx)
		must(err)
		t.Values[name+"/"+mark] += at.Sub(s.begin).Seconds()
	}
	t.end(s)
	return s
}

func (t *trial) begin(name string) *span {
	s := &span{name: name, before: t.leader.usage(), begin: time.Now()}
	t.spans = append(t.spans, s)
	return s
}

func (t *trial) end(s *span) {
	used := t.leader.usage()
	s.end = time.Now()
	t.Values[s.name+"/cpu"] += used.cpu - s.before.cpu
	t.Values[s.name+"/rss"], t.Values[s.name+"/peak"] = used.resident, used.peak
}

// countRequests counts the requests in each span that has ended: all, those of each verb, of each
// resource, and of each verb for each resource, as in NAME/requests/create pods.
func (t *trial) countRequests() {
	requests := t.requests()
	t.spans = slices.DeleteFunc(t.spans, func(s *span) bool {
		for _, e := range requests {
			if e.Time.Before(s.begin) || e.Time.After(s.end) {
				continue
			}
			for _, of := range []string{"", "/" + e.Verb, "/" + e.Resource, "/" + e.Verb + " " + e.Resource} {
				t.Values[s.name+"/requests"+of]++
			}
		}
		return !s.end.IsZero()
	})
}

// requests returns the controller manager's requests, from the audit log.
func (t *trial) requests() []cluster.AuditEvent {
	events, err := t.cluster.AuditEvents(func(e cluster.AuditEvent) bool { return isControllerManager(e.User) })
	must(err)
	return events
}

// isControllerManager tells whether a user is the controller manager or one of its loops. Nobody else
// on the cluster goes by these names.
func isControllerManager(user string) bool {
	return user == "system:kube-controller-manager" || strings.HasPrefix(user, "system:serviceaccount:kube-system:")
}
