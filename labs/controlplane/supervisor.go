package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
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
	cluster   *cluster
	lock      *os.File
	pki       *pki
	processes map[string]*process
	probes    *probes
	progress  io.Writer
	log       *log.Logger

	// up is set when the cluster has started. Before, commands other than "down" are refused.
	up atomic.Bool
	// restarting keeps two restarts of one component apart.
	restarting sync.Mutex
	// fail ends the start of the cluster with an error; nil when it has started.
	mu   sync.Mutex
	fail context.CancelCauseFunc
}

// supervise starts a cluster in dir, calls ready, and then keeps the cluster until ctx ends. It leaves nothing behind.
func supervise(ctx context.Context, dir string, nodes int, progress io.Writer, ready func(*cluster) error) error {
	c, lock, err := claim(dir, nodes)
	if err != nil {
		return err
	}
	defer lock.Close()
	s := &supervisor{cluster: c, lock: lock, progress: progress}
	err = s.run(ctx, ready)
	s.stopAll()
	if !s.ownsDirectory() {
		return err
	}
	return errors.Join(err, c.remove())
}

func (s *supervisor) run(ctx context.Context, ready func(*cluster) error) error {
	logFile, err := os.OpenFile(s.cluster.log(supervisorName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logFile.Close()
	s.log = log.New(logFile, "", log.LstdFlags|log.Lmicroseconds)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	endControl, err := s.serveControl(cancel)
	if err != nil {
		return err
	}
	defer endControl()
	if err := s.start(ctx); err != nil {
		return err
	}
	s.up.Store(true)
	if err := ready(s.cluster); err != nil {
		return err
	}
	s.keep(ctx)
	return nil
}

// start starts the components, and once more with other ports if somebody else took one.
func (s *supervisor) start(ctx context.Context) error {
	var err error
	if s.pki, err = newPKI(s.cluster.path("pki")); err != nil {
		return err
	}
	err = s.startOnce(ctx)
	if err == nil || !portTaken(err) || ctx.Err() != nil {
		return err
	}
	s.say("a port was taken by another program; trying once more with others")
	s.stopAll()
	if err := os.RemoveAll(s.cluster.path("etcd")); err != nil {
		return err
	}
	if err := s.cluster.makeDirs(); err != nil {
		return err
	}
	return s.startOnce(ctx)
}

func portTaken(err error) bool {
	return strings.Contains(err.Error(), "address already in use")
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
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.probes.createNodes(ctx, s.cluster.Nodes) })
	group.Go(func() error { return s.waitReady(ctx, schedulerName) })
	group.Go(func() error { return poll(ctx, "nodes", s.probes.nodesReady) })
	if err := group.Wait(); err != nil {
		return err
	}
	s.say("%d nodes are Ready after %.1f s", s.cluster.Nodes, time.Since(begin).Seconds())
	return nil
}

// configure picks ports and writes everything that depends on them.
func (s *supervisor) configure() error {
	p, err := pickPorts()
	if err != nil {
		return err
	}
	c := s.cluster
	c.Server = loopback(p.apiserver)
	if err := errors.Join(c.writeConfig(), c.writeKubeconfigs(s.pki), c.save()); err != nil {
		return err
	}
	s.processes = map[string]*process{}
	for name, args := range c.arguments(p) {
		s.processes[name] = &process{name: name, args: args, env: c.environment(), log: c.log(name), onExit: s.crashed}
	}
	s.probes, err = newProbes(c, s.pki, p)
	return err
}

func (s *supervisor) startComponents(names ...string) error {
	for _, name := range names {
		if err := s.processes[name].start(); err != nil {
			return err
		}
		s.cluster.Pids[name] = s.processes[name].pid()
		s.log.Printf("%s started, pid %d", name, s.cluster.Pids[name])
	}
	return s.cluster.save()
}

func (s *supervisor) waitReady(ctx context.Context, name string) error {
	return poll(ctx, name+" is ready", func(ctx context.Context) error { return s.probes.ready(ctx, s.processes[name]) })
}

// crashed is called when a component has ended and nobody asked for it. It is not started again: in a lab, what has
// failed is to be seen.
func (s *supervisor) crashed(p *process) {
	err := p.crash()
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
	s.processes[name].stop()
	if name == kwokName {
		// A new kwok is not the one that holds the nodes' Leases, and would wait 40 s until they have run out.
		if err := s.probes.deleteLeases(ctx); err != nil {
			return err
		}
	}
	if err := s.startComponents(name); err != nil {
		return err
	}
	go func() {
		select {
		case <-s.processes[name].ended():
			fail(s.processes[name].crash())
		case <-ctx.Done():
		}
	}()
	return s.waitReady(ctx, name)
}

// keep returns when ctx ends or the directory is gone.
func (s *supervisor) keep(ctx context.Context) {
	ticker := time.NewTicker(directoryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if !s.ownsDirectory() {
				s.log.Printf("%s was removed: ending the cluster", s.cluster.Dir)
				return
			}
		}
	}
}

// ownsDirectory says whether the lock is still the one that this process holds.
func (s *supervisor) ownsDirectory() bool {
	mine, err := s.lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(filepath.Join(s.cluster.Dir, lockFile))
	return err == nil && os.SameFile(mine, there)
}

// stopAll ends all components at once: what they would still tell each other is not kept.
func (s *supervisor) stopAll() {
	var stopping sync.WaitGroup
	for _, p := range s.processes {
		stopping.Go(p.stop)
	}
	stopping.Wait()
}

// say tells the user what is going on, and the log.
func (s *supervisor) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	s.log.Print(line)
	fmt.Fprintf(s.progress, "labcluster: %s\n", line)
}
