package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

// nodes have room for 1000 pods each.
const nodes = 10

// trial is one subject on one cluster.
type trial struct {
	bench   *bench
	subject subject
	result  *result
	cluster *cluster.Cluster
	client  kubernetes.Interface
	watch   *watch
	// died ends the trial when a controller manager has ended by itself.
	died func(error)
	// leader is the replica that leads; all are those that were started.
	leader *process
	all    []*process
	// profiler is nil in rounds that are counted, but for trials of deletions and of
	// listening.
	profiler *profiler
	// atDefaults says that replicas are started with their own rate limits.
	atDefaults bool
	// neighbours are how many Deployments without pods there are.
	neighbours int
	// markers are how many DaemonSets of one node there are.
	markers int
}

// trial runs all phases for a subject on a cluster of its own.
func (b *bench) trial(ctx context.Context, s subject, result *result, profile bool) (err error) {
	if !b.wants(s, result.Round) {
		return nil
	}
	c, err := cluster.Start(ctx, cluster.WithNodes(nodes))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	client, err := newClient(c)
	if err != nil {
		return err
	}
	ctx, died := context.WithCancelCause(ctx)
	defer died(nil)
	t := &trial{bench: b, subject: s, result: result, cluster: c, client: client, died: died}
	if profile || s.about == deletions || s.about == listening {
		if t.profiler, err = newProfiler(t); err != nil {
			return err
		}
	}
	if err := t.prepare(ctx); err != nil {
		return err
	}
	var stopWatch func()
	if t.watch, stopWatch, err = startWatch(ctx, client); err != nil {
		return err
	}
	defer stopWatch()
	defer t.endAll()
	switch {
	case s.name == limit.name:
		err = t.createRaw(ctx)
	case s.phases != nil:
		err = t.runEach(ctx, s.phases)
	default:
		err = t.runPhases(ctx)
	}
	if errors.Is(err, context.Canceled) {
		return context.Cause(ctx) // it says why
	}
	return err
}

// newClient returns a client without limits that speaks what controllers
// speak.
func newClient(c *cluster.Cluster) (kubernetes.Interface, error) {
	config := c.RESTConfig(cluster.Admin)
	config.UserAgent = "bench"
	config.ContentType = runtime.ContentTypeProtobuf
	return kubernetes.NewForConfig(config)
}

// startReplica starts the subject once more.
func (t *trial) startReplica() (*process, error) { return t.start(t.subject) }

func (t *trial) start(s subject) (*process, error) {
	flags := s.flags(t.cluster)
	if !t.atDefaults {
		flags = append(flags, wideLimits()...)
	}
	if t.profiler != nil {
		flags = append(flags, t.profiler.flags()...)
	} else {
		flags = append(flags, "--secure-port=0")
	}
	name := fmt.Sprintf("round-%d-%s-%d.log", t.result.Round, s.file(), len(t.all)+1)
	p, err := startProcess(s.program, flags, filepath.Join(t.bench.logs(), name), t.died)
	if err != nil {
		return nil, err
	}
	t.all = append(t.all, p)
	return p, nil
}

// lead starts a replica that leads. Whoever led before has ended, and need not
// be waited for.
func (t *trial) lead(ctx context.Context) error {
	err := t.client.CoordinationV1().Leases("kube-system").Delete(ctx, "kube-controller-manager", metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	t.leader, err = t.startReplica()
	return err
}

func (t *trial) endAll() {
	for _, p := range t.all {
		p.end(syscall.SIGKILL)
	}
}

// set keeps a time that was measured.
func (t *trial) set(key string, seconds time.Duration) { t.result.Values[key] = seconds.Seconds() }

func (t *trial) say(format string, args ...any) {
	t.bench.say(t.result.Round, t.subject.name, format, args...)
}

// phase is a part of a trial.
type phase struct {
	name string
	run  func(*trial, context.Context) error
	// neededBy are the phases that go on with what this one has made.
	neededBy []string
	// once says that one round is enough.
	once bool
}

var (
	loadPhases = []phase{
		{name: "create", run: (*trial).create, neededBy: []string{"update", "zero"}},
		{name: "update", run: (*trial).update},
		{name: "zero", run: (*trial).scaleToZero},
		{name: "many", run: (*trial).createMany},
	}
	deletionPhases = []phase{
		{name: "namespace", run: (*trial).deleteNamespace},
		{name: "gc", run: (*trial).collect, once: true},
	}
	growthPhases = []phase{
		{name: "growth", run: (*trial).grow, once: true},
		{name: "restart", run: (*trial).restart, once: true},
	}
	sizePhases = []phase{
		{name: "relabel", run: (*trial).relabel, once: true},
		{name: "quota", run: (*trial).recount, once: true},
		{name: "5000", run: (*trial).createHuge, once: true},
	}
	listeningPhases = []phase{{name: "trace", run: (*trial).listen}}
	daemonPhases    = []phase{{name: "daemons", run: (*trial).daemons, once: true}}
	jobPhases       = []phase{{name: "jobs", run: (*trial).runJobs}}
	servicePhases   = []phase{
		{name: "services", run: (*trial).rollOutService, once: true},
		{name: "among", run: (*trial).changeAmongServices, once: true},
	}
	failoverPhases = []phase{
		{name: "clean", run: (*trial).failOverClean},
		{name: "killed", run: (*trial).failOverKilled},
	}
)

// coldStartFor is the cold start where another phase alone is asked for.
func coldStartFor(phases ...string) phase {
	return phase{run: (*trial).coldStart, neededBy: phases}
}

// runPhases runs what -only has left: the load, then the failovers. Nothing is
// failed over while profiles are taken.
func (t *trial) runPhases(ctx context.Context) error {
	if err := t.coldStart(ctx); err != nil {
		return err
	}
	if err := t.runLoad(ctx, t.bench.wanted(loadPhases, t.result.Round)); err != nil {
		return err
	}
	if t.profiler != nil {
		return nil
	}
	return t.runEach(ctx, failoverPhases)
}

func (t *trial) runEach(ctx context.Context, phases []phase) error {
	for _, p := range t.bench.wanted(phases, t.result.Round) {
		if err := p.run(t, ctx); err != nil {
			return err
		}
	}
	return nil
}

// wants tells whether -only has left anything to do for a subject in a round.
func (b *bench) wants(s subject, round int) bool {
	switch {
	case s.name == limit.name:
		return b.only.MatchString("limit")
	case s.phases != nil:
		return len(b.wanted(s.phases, round)) > 0
	default:
		return b.only.MatchString("cold") || len(b.wanted(loadPhases, round))+len(b.wanted(failoverPhases, round)) > 0
	}
}

// wanted returns the phases that -only asks for, and those that they need.
func (b *bench) wanted(phases []phase, round int) []phase {
	matches := b.only.MatchString
	return slices.DeleteFunc(slices.Clone(phases), func(p phase) bool {
		return !matches(p.name) && !slices.ContainsFunc(p.neededBy, matches) || p.once && round > 1
	})
}
