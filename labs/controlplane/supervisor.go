package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kcm-book/kcm-book/labs/controlplane/internal/directory"
	"github.com/kcm-book/kcm-book/labs/controlplane/internal/pki"
	"github.com/kcm-book/kcm-book/labs/controlplane/internal/supervised"
)

const (
	// How long a cluster or a component may take to get ready, on a busy machine.
	startTimeout = 5 * time.Minute
	// How often it is looked at meanwhile.
	pollInterval = 15 * time.Millisecond
	// How often the supervisor looks whether its directory is still there.
	directoryInterval = 2 * time.Second
)

// supervisor runs the components of one cluster. It ends with the cluster.
type supervisor struct {
	cluster   cluster
	lock      *directory.Lock
	ports     endpoints
	processes map[string]*supervised.Process
	client    kubernetes.Interface // the admin's
	watches   kubernetes.Interface // the same, without a deadline
	log       *log.Logger

	// restarting keeps restarts apart from each other and from whoever reads the cluster's state, which they change.
	restarting sync.Mutex
}

// supervise starts a cluster in dir, calls ready, and then keeps the cluster until ctx ends. It leaves nothing behind.
func supervise(ctx context.Context, dir string, nodes int, ready func(cluster) error) error {
	c, lock, err := directory.Claim(dir, nodes, slices.Collect(maps.Keys(users)))
	if err != nil {
		return err
	}
	defer lock.Close()
	s := &supervisor{cluster: cluster{c}, lock: lock}
	err = s.run(ctx, ready)
	s.stopAll()
	if !lock.IsIn(c.Dir) {
		return err
	}
	return errors.Join(err, c.Remove())
}

func (s *supervisor) run(ctx context.Context, ready func(cluster) error) error {
	logFile, err := os.OpenFile(s.cluster.Log(directory.Supervisor), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logFile.Close()
	s.log = log.New(logFile, "", log.LstdFlags|log.Lmicroseconds)
	// A socket's path must be short, and that of the directory may not be. kwok would read a configuration from the user's
	// home directory too.
	if err := cmp.Or(debug.SetCrashOutput(logFile, debug.CrashOptions{}), os.Chdir(s.cluster.Dir),
		os.Setenv("HOME", s.cluster.Path("config"))); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	// Only the owner can enter the directory. Who knows that the cluster is ready finds the socket there.
	control, err := net.Listen("unix", directory.ControlSocket)
	if err != nil {
		return err
	}
	defer control.Close()
	if err := ready(s.cluster); err != nil {
		return err
	}
	go s.serve(control)
	go s.letSpeak(ctx)
	s.keep(ctx)
	return nil
}

// start starts the components, and once more with other ports if somebody else took one. A component says so only in
// its log, whose last lines are part of the error.
func (s *supervisor) start(ctx context.Context) error {
	credentials, err := pki.New(s.cluster.Path("pki"), serviceIP, users)
	if err != nil {
		return err
	}
	for second := false; ; second = true {
		if err := s.configure(credentials); err != nil {
			return err
		}
		err := s.within(ctx, s.startAll)
		if err == nil || second || ctx.Err() != nil || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
		s.say("a port was taken by another program; trying once more with others")
		s.stopAll()
		if err := os.RemoveAll(s.cluster.Path("etcd", "data")); err != nil {
			return err
		}
	}
}

// configure picks ports and writes everything that depends on them.
func (s *supervisor) configure(credentials *pki.Credentials) (err error) {
	if s.ports, err = pickEndpoints(); err != nil {
		return err
	}
	c := s.cluster
	c.Server = loopback(s.ports.apiserver)
	arguments, err := c.arguments(s.ports)
	if err := errors.Join(err, c.writeConfig(), c.writeKubeconfigs(credentials), c.Save()); err != nil {
		return err
	}
	s.processes = map[string]*supervised.Process{}
	for name, args := range arguments {
		s.processes[name] = &supervised.Process{Name: name, Args: args, Log: c.Log(name)}
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfigs["admin"])
	if err != nil {
		return err
	}
	config.UserAgent, config.QPS = "labcluster", -1
	s.watches = kubernetes.NewForConfigOrDie(config)
	config.Timeout = probeTimeout
	s.client = kubernetes.NewForConfigOrDie(config)
	return nil
}

// within calls start with a context that ends after startTimeout, or when a component ends that was started with fail.
func (s *supervisor) within(ctx context.Context, start func(ctx context.Context, fail func(error)) error) error {
	ctx, stop := context.WithTimeout(ctx, startTimeout)
	defer stop()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	err := start(ctx, fail)
	switch cause := context.Cause(ctx); {
	case err == nil || cause == nil:
		return err
	case !errors.Is(cause, context.DeadlineExceeded):
		return cause // errors of what it interrupted do not tell
	}
	// The logs are removed with a cluster that does not start.
	for _, name := range componentNames {
		if lines := s.processes[name].Status().Log; len(lines) > 0 {
			err = fmt.Errorf("%w\nthe last words of %s:\n    %s", err, name, strings.Join(lines, "\n    "))
		}
	}
	return err
}

// startAll starts what each component needs before the component.
func (s *supervisor) startAll(ctx context.Context, fail func(error)) error {
	begin := time.Now()
	s.say("starting etcd and kube-apiserver")
	if err := s.startComponents(fail, etcdName, apiserverName); err != nil {
		return err
	}
	if err := s.waitReady(ctx, apiserverName); err != nil {
		return err
	}
	s.say("kube-apiserver is ready after %.1f s; starting kube-scheduler, kwok and %d nodes",
		time.Since(begin).Seconds(), s.cluster.Nodes)
	if err := s.startComponents(fail, schedulerName, kwokName); err != nil {
		return err
	}
	if err := poll(ctx, "creation of nodes", s.createNodes); err != nil {
		return err
	}
	if err := s.waitReady(ctx, schedulerName); err != nil {
		return err
	}
	if err := poll(ctx, "nodes", s.nodesReady); err != nil {
		return err
	}
	s.say("%d nodes are Ready after %.1f s", s.cluster.Nodes, time.Since(begin).Seconds())
	return nil
}

// startComponents starts components. One that crashes is not started again: in a lab, what has failed is to be seen.
func (s *supervisor) startComponents(fail func(error), names ...string) error {
	for _, name := range names {
		err := s.processes[name].Start(func(err error) {
			s.log.Print(err)
			fail(err)
		})
		if err != nil {
			return err
		}
		s.cluster.Pids[name] = s.processes[name].Status().Pid
		s.log.Printf("%s started, pid %d", name, s.cluster.Pids[name])
	}
	return s.cluster.Save()
}

func (s *supervisor) waitReady(ctx context.Context, name string) error {
	return poll(ctx, name+" is ready", func(ctx context.Context) error { return s.ready(ctx, name) })
}

// poll calls done until it returns nil, and gives up with its last error when ctx ends.
func poll(ctx context.Context, what string, done func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		last = done(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s: not within %v: %w", what, startTimeout, last)
	}
	return nil
}

// restart ends a component if it runs, and starts it again with the same ports and data.
func (s *supervisor) restart(name string) error {
	s.restarting.Lock()
	defer s.restarting.Unlock()
	return s.within(context.Background(), func(ctx context.Context, fail func(error)) error {
		s.processes[name].Stop()
		// A new kwok is not the one that holds the nodes' Leases, and would wait 16 s until they have run out.
		if name == kwokName {
			leases := s.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
			if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				return fmt.Errorf("delete the nodes' Leases: %w", err)
			}
		}
		if err := s.startComponents(fail, name); err != nil {
			return err
		}
		return s.waitReady(ctx, name)
	})
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
	fmt.Fprintf(os.Stderr, "labcluster: %s\n", line)
}
