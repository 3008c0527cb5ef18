package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcm-book/kcm-book/labs/controlplane/internal/directory"
	"github.com/kcm-book/kcm-book/labs/controlplane/internal/pki"
	"github.com/kcm-book/kcm-book/labs/controlplane/internal/ports"
	"github.com/kcm-book/kcm-book/labs/controlplane/internal/supervised"
)

const (
	// How long a cluster or a component may take to get ready, on a busy machine.
	startTimeout = 90 * time.Second
	// How often it is looked at meanwhile.
	pollInterval = 15 * time.Millisecond
	// How often the supervisor looks whether its directory is still there.
	directoryInterval = 2 * time.Second
)

// supervisor runs the components of one cluster. It ends with the cluster.
type supervisor struct {
	cluster   cluster
	lock      *directory.Lock
	pki       *pki.Credentials
	processes map[string]*supervised.Process
	probes    *probes
	progress  io.Writer
	log       *log.Logger

	// up is set when the cluster has started. Before, commands other than "down" are refused.
	up atomic.Bool
	// restarting keeps restarts apart from each other and from whoever reads the cluster's state, which they change.
	restarting sync.Mutex
	// fail ends the start of the cluster with an error; nil when it has started.
	mu   sync.Mutex
	fail context.CancelCauseFunc
}

// supervise starts a cluster in dir, calls ready, and then keeps the cluster until ctx ends. It leaves nothing behind.
func supervise(ctx context.Context, dir string, nodes int, progress io.Writer, ready func(cluster) error) error {
	c, lock, err := directory.Claim(dir, nodes, slices.Collect(maps.Keys(users)))
	if err != nil {
		return err
	}
	defer lock.Close()
	s := &supervisor{cluster: cluster{c}, lock: lock, progress: progress}
	err = s.run(ctx, ready)
	s.stopAll()
	if !lock.IsIn(c.Dir) {
		return err
	}
	return errors.Join(err, c.Remove())
}

// errEnded is why a cluster that is still starting ends when it is asked to.
var errEnded = errors.New("ended by 'bin/labcluster down'")

func (s *supervisor) run(ctx context.Context, ready func(cluster) error) error {
	logFile, err := os.OpenFile(s.cluster.Log(supervisorName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logFile.Close()
	s.log = log.New(logFile, "", log.LstdFlags|log.Lmicroseconds)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	endControl, err := s.serveControl(func() { cancel(errEnded) })
	if err != nil {
		return err
	}
	defer endControl()
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.announce(ready); err != nil {
		return err
	}
	s.keep(ctx)
	return nil
}

// announce lets commands in and tells the user that they may come. The first restart waits until it has.
func (s *supervisor) announce(ready func(cluster) error) error {
	s.restarting.Lock()
	defer s.restarting.Unlock()
	s.up.Store(true)
	return ready(s.cluster)
}

// start starts the components, and once more with other ports if somebody else took one.
func (s *supervisor) start(ctx context.Context) error {
	var err error
	if s.pki, err = pki.New(s.cluster.Path("pki"), serviceIP, users); err != nil {
		return err
	}
	err = s.startOnce(ctx)
	if err == nil || !ports.Taken(err) || ctx.Err() != nil {
		return err
	}
	s.say("a port was taken by another program; trying once more with others")
	s.stopAll()
	if err := os.RemoveAll(s.cluster.Path("etcd")); err != nil {
		return err
	}
	if err := s.cluster.MakeSubdirectories(); err != nil {
		return err
	}
	return s.startOnce(ctx)
}

func (s *supervisor) startOnce(ctx context.Context) error {
	if err := s.configure(); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, startTimeout)
	defer stop()
	ctx, fail := context.WithCancelCause(ctx)
	s.setFail(fail)
	defer s.setFail(nil)

	err := s.startAll(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w%s", err, s.lastWords())
	}
	return err
}

// startAll starts what each component needs before the component. It ends with ctx.
func (s *supervisor) startAll(ctx context.Context) error {
	begin := time.Now()
	s.say("starting etcd and kube-apiserver")
	if err := s.startComponents(etcdName, apiserverName); err != nil {
		return err
	}
	if err := s.waitReady(ctx, apiserverName); err != nil {
		return err
	}
	s.say("kube-apiserver is ready after %.1f s; starting kube-scheduler, kwok and %d nodes", time.Since(begin).Seconds(), s.cluster.Nodes)
	if err := s.startComponents(schedulerName, kwokName); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return poll(groupCtx, "creation of nodes", s.probes.createNodes) })
	group.Go(func() error { return s.waitReady(groupCtx, schedulerName) })
	group.Go(func() error { return poll(groupCtx, "nodes", s.probes.nodesReady) })
	if err := group.Wait(); err != nil {
		return reason(ctx, err)
	}
	s.say("%d nodes are Ready after %.1f s", s.cluster.Nodes, time.Since(begin).Seconds())
	return nil
}

// lastWords is what the components have written last. Their logs are removed with a cluster that does not start.
func (s *supervisor) lastWords() string {
	var words strings.Builder
	for _, name := range componentNames {
		if lines := s.processes[name].LastWords(); len(lines) > 0 {
			fmt.Fprintf(&words, "\nthe last words of %s:\n    %s", name, strings.Join(lines, "\n    "))
		}
	}
	return words.String()
}

// configure picks ports and writes everything that depends on them.
func (s *supervisor) configure() error {
	p, err := pickEndpoints()
	if err != nil {
		return err
	}
	c := s.cluster
	c.Server = loopback(p.apiserver)
	if err := errors.Join(c.writeConfig(), c.writeKubeconfigs(s.pki), c.Save()); err != nil {
		return err
	}
	s.processes = map[string]*supervised.Process{}
	for name, args := range c.arguments(p) {
		s.processes[name] = &supervised.Process{Name: name, Args: args, Env: c.environment(), Log: c.Log(name), OnExit: s.crashed}
	}
	s.probes, err = newProbes(c, s.pki, p)
	return err
}

func (s *supervisor) startComponents(names ...string) error {
	for _, name := range names {
		if err := s.processes[name].Start(); err != nil {
			return err
		}
		s.cluster.Pids[name] = s.processes[name].Pid()
		s.log.Printf("%s started, pid %d", name, s.cluster.Pids[name])
	}
	return s.cluster.Save()
}

func (s *supervisor) waitReady(ctx context.Context, name string) error {
	return poll(ctx, name+" is ready", func(ctx context.Context) error { return s.probes.ready(ctx, s.processes[name]) })
}

// crashed is called when a component has ended and nobody asked for it. It is not started again: in a lab, what has
// failed is to be seen.
func (s *supervisor) crashed(err error) {
	s.log.Print(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		s.fail(err)
	}
}

func (s *supervisor) setFail(fail context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// restart ends a component if it runs, and starts it again with the same ports and data.
func (s *supervisor) restart(ctx context.Context, name string) error {
	s.restarting.Lock()
	defer s.restarting.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	// What is sure to fail is refused before anything is ended.
	if err := s.cluster.Check(); err != nil {
		return err
	}
	if err := s.end(ctx, name); err != nil {
		return err
	}
	if err := s.startComponents(name); err != nil {
		return err
	}
	go func() {
		if err := s.processes[name].Wait(ctx); err != nil {
			fail(err)
		}
	}()
	return s.waitReady(ctx, name)
}

// end ends a component, if it runs, before it is started again.
func (s *supervisor) end(ctx context.Context, name string) error {
	if name != kwokName {
		s.processes[name].Stop()
		return nil
	}
	// A new kwok is not the one that holds the nodes' Leases, and would wait 40 s until they have run out. If they cannot
	// be deleted, the old one stays. It may renew some before it ends; so they are deleted once more.
	if err := s.probes.deleteLeases(ctx); err != nil {
		return err
	}
	s.processes[name].Stop()
	return s.probes.deleteLeases(ctx)
}

// keep returns when ctx ends or the directory is no longer the cluster's, so that no command could end it.
func (s *supervisor) keep(ctx context.Context) {
	ticker := time.NewTicker(directoryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if _, err := directory.Open(s.cluster.Dir); err != nil || !s.lock.IsIn(s.cluster.Dir) {
				s.log.Printf("%s was removed, or its cluster.json: ending the cluster", s.cluster.Dir)
				return
			}
		}
	}
}

// stopAll ends all components at once: what they would still tell each other is not kept.
func (s *supervisor) stopAll() {
	var stopping sync.WaitGroup
	for _, p := range s.processes {
		stopping.Go(p.Stop)
	}
	stopping.Wait()
}

// say tells the user what is going on, and the log.
func (s *supervisor) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	s.log.Print(line)
	fmt.Fprintf(s.progress, "labcluster: %s\n", line)
}
