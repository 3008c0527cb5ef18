package view

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/faults"
	"github.com/kcm-book/kcm-book/labs/history"
	"github.com/kcm-book/kcm-book/labs/process"
)

// Lab shows the managers of a cluster, and lets them be disturbed.
type Lab struct {
	*View
	// StartAnother starts a manager in place of one that has ended, or is nil.
	StartAnother func() error

	cluster    *cluster.Cluster
	hand       *faults.Hand
	kubeconfig string
	ctx        context.Context
	running    sync.WaitGroup

	replacing sync.Mutex // is held while a manager is replaced
	stopped   bool       // says that no manager is to be replaced any more

	mu       sync.Mutex
	managers map[string]*process.Process
}

// NewLab begins to record what is in all namespaces of a cluster, until ctx ends. The
// managers are kcm, or the original if reference is true. Its files are kept in dir.
func NewLab(ctx context.Context, c *cluster.Cluster, reference bool, title, dir string) (*Lab, error) {
	l := &Lab{View: New(title), cluster: c, ctx: ctx, kubeconfig: filepath.Join(dir, "view.kubeconfig"), managers: map[string]*process.Process{}}
	user := cluster.KCM
	if reference {
		user = cluster.Reference
		l.Missing = "The original tells nothing of its inside. What it does to objects is shown; queues, syncs and caches cannot be."
	}
	client, err := dynamic.NewForConfig(c.RESTConfig(cluster.Admin))
	if err != nil {
		return nil, err
	}
	recorded, err := history.Record(ctx, map[string]dynamic.ResourceInterface{
		"deployments":            client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}),
		"replicasets":            client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}),
		"replicationcontrollers": client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "replicationcontrollers"}),
		"pods":                   client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}),
	})
	if err != nil {
		return nil, err
	}
	if l.hand, err = faults.NewHand(c, user, l.kubeconfig); err != nil {
		return nil, err
	}
	l.Asked = l.hand.Deletes
	l.Deeds = l.deeds()
	l.running.Go(func() { l.Record(ctx, recorded, faults.NewJudge()) })
	l.running.Go(recorded.Wait)
	return l, nil
}

// Close returns when nothing is told any more, after the context of NewLab has ended
// and the managers have.
func (l *Lab) Close() {
	l.hand.Close()
	l.running.Wait()
}

// Flags are those with which a manager has to be started to be disturbed.
func (l *Lab) Flags() []string { return []string{"--kubeconfig=" + l.kubeconfig} }

// Started says that a manager was started, which serves on a port.
func (l *Lab) Started(name, port string, p *process.Process) {
	l.mu.Lock()
	l.managers[name] = p
	l.mu.Unlock()
	l.Manager(name, "waits")
	alive, over := context.WithCancel(l.ctx)
	l.running.Go(func() {
		defer over()
		l.awaitEnd(name, p)
	})
	l.running.Go(func() {
		err := l.Listen(alive, name, port, l.cluster.RESTConfig(cluster.Admin))
		if errors.Is(err, ErrNoTrace) {
			l.Lacks(fmt.Sprintf("%s tells nothing of its inside. What it does to objects is shown; queues, syncs and caches cannot be.", name))
		}
	})
}

// awaitEnd tells when a manager leads, by its log, and when it has ended.
func (l *Lab) awaitEnd(name string, p *process.Process) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	leads, began := false, time.Now()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-p.Exited:
			l.Manager(name, "gone")
			if time.Since(began) > time.Second { // one that ends at once would do so again
				l.replace(name)
			}
			return
		case <-ticker.C:
			// kcm and the original begin the line with another letter.
			if !leads && strings.Contains(p.Log.String(), "uccessfully acquired lease") {
				leads = true
				l.Manager(name, "leads")
			}
		}
	}
}

// replace starts another manager in place of one that has ended, unless a script
// starts them or all are to end.
func (l *Lab) replace(name string) {
	l.replacing.Lock()
	defer l.replacing.Unlock()
	if l.stopped || l.StartAnother == nil || l.ctx.Err() != nil {
		return
	}
	if err := l.StartAnother(); err != nil {
		l.Did(fmt.Sprintf("No manager could be started in place of %s: %v", name, err))
	}
}

// leading returns the manager that leads.
func (l *Lab) leading() (name string, p *process.Process, err error) {
	l.View.mu.Lock()
	name = l.told.leader
	l.View.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if p = l.managers[name]; p == nil || !p.Running() {
		return "", nil, errors.New("nobody leads at the moment")
	}
	return name, p, nil
}

// deeds are what the buttons of every view do.
func (l *Lab) deeds() []Deed {
	arm := func(kind, resource string) func(context.Context) error {
		return func(context.Context) error { return l.hand.Arm(kind, resource) }
	}
	return []Deed{
		{"Watch late", "the next event of a pod, and what follows it, comes 1.5 s late", arm("late", "pods")},
		{"Watch cut", "the next event of a pod is never seen: the watch ends, and half a second later all pods are listed anew", arm("miss", "pods")},
		{"Write refused", "the next write is refused with an internal error", arm("refuse-500", "")},
		{"Answer lost", "the next write is done, and its answer is lost", arm("lose", "")},
		{"Leader killed", "the leader is gone without a word; the next one waits until its Lease has run out", l.killLeader},
		{"Leader frozen", "the leader is stopped, and wakes up when the next one writes", l.freezeLeader},
		{"API server killed", "the API server is killed, and started anew three seconds later", l.killAPIServer},
	}
}

func (l *Lab) killLeader(context.Context) error {
	_, leader, err := l.leading()
	if err != nil {
		return err
	}
	leader.Kill()
	return nil
}

func (l *Lab) freezeLeader(context.Context) error {
	name, leader, err := l.leading()
	if err != nil {
		return err
	}
	if err := leader.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze %s: %w", name, err)
	}
	l.Manager(name, "frozen")
	l.hand.Frozen(func() {
		l.Manager(name, "woken")
		_ = leader.Cmd.Process.Signal(syscall.SIGCONT) // it cannot have ended
	})
	return nil
}

// away is for how long the API server is gone.
const away = 3 * time.Second

func (l *Lab) killAPIServer(ctx context.Context) error {
	l.StopJudging("while the API server is away some changes may be missed")
	if err := l.cluster.Kill(ctx, cluster.APIServer); err != nil {
		return err
	}
	select {
	case <-time.After(away): // that it is away is what this is for
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
	components := []cluster.Component{cluster.APIServer}
	if !cluster.OnKind() {
		components = append(components, cluster.Scheduler, cluster.Kwok) // how they get over it is not the question
	}
	for _, component := range components {
		if err := l.cluster.Restart(ctx, component); err != nil {
			return fmt.Errorf("start %s anew: %w", component, err)
		}
	}
	l.Did("The API server is back")
	return nil
}

// Stop ends all managers that still run.
func (l *Lab) Stop() {
	l.replacing.Lock()
	l.stopped = true
	l.replacing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(l.managers)) {
		p := l.managers[name]
		_ = p.Cmd.Process.Signal(syscall.SIGCONT) // it may have ended
		p.Kill()
	}
}
