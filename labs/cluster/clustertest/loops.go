package clustertest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

// referenceVariable in the environment has the original
// kube-controller-manager run the loops, so that a test shows whether it tells
// the truth about Kubernetes.
const referenceVariable = "REFERENCE"

// Loop is a loop that runs while the tests of a package do.
type Loop struct {
	// Name is the canonical name of the controller, by which the original
	// knows it too.
	Name string
	// Start builds the loop with informers that are started afterwards, and
	// returns what runs it until the context ends.
	Start func(ctx context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory) (run func(context.Context), err error)
}

// Reference tells whether the original runs the loops. Tests that are about
// something that only kcm has skip themselves then, and say why.
func Reference() bool { return os.Getenv(referenceVariable) == "1" }

// startLoops runs the loops, in this process or in the original. The returned
// function stops them and waits until they have; when tests have failed, it
// shows what the original has logged last.
func startLoops(ctx context.Context, c cluster.Cluster, loops []Loop) (stop func(failed bool) error, err error) {
	switch {
	case len(loops) == 0:
		return func(bool) error { return nil }, nil
	case Reference():
		return startReference(ctx, c, loops)
	default:
		return startHere(ctx, c, loops)
	}
}

func startHere(ctx context.Context, c cluster.Cluster, loops []Loop) (func(failed bool) error, error) {
	config := c.RESTConfig(cluster.Admin)
	config.UserAgent = "loops-under-test"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactory(client, 0)
	var runs []func(context.Context)
	for _, loop := range loops {
		run, err := loop.Start(ctx, client, factory)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("start %s: %w", loop.Name, err)
		}
		runs = append(runs, run)
	}
	factory.Start(ctx.Done())
	var running sync.WaitGroup
	for _, run := range runs {
		running.Go(func() { run(ctx) })
	}
	return func(bool) error {
		cancel()
		running.Wait()
		factory.Shutdown()
		return nil
	}, nil
}

func startReference(ctx context.Context, c cluster.Cluster, loops []Loop) (func(failed bool) error, error) {
	names := make([]string, len(loops))
	for i, loop := range loops {
		names[i] = loop.Name
	}
	ctx, cancel := context.WithCancel(ctx)
	log := &strings.Builder{}
	cmd := c.Reference(ctx, "--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=2000", "--controllers="+strings.Join(names, ","))
	cmd.Stdout, cmd.Stderr = log, log
	// The original has no reason to end by itself, nor to take long to stop.
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start the original kube-controller-manager: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return func(failed bool) error {
		defer cancel()
		select {
		case err := <-ended:
			return fmt.Errorf("the original kube-controller-manager ended during the tests: %w\n%s", err, log)
		default:
		}
		cancel()
		<-ended
		if failed {
			fmt.Fprintf(os.Stderr, "clustertest: the last lines of the original kube-controller-manager:\n%s\n", lastLines(log.String(), logLines))
		}
		return nil
	}, nil
}

// logLines is how many lines of the original's log a failure shows.
const logLines = 50

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
