// Command demo shows kcm at work: a control plane comes up, two replicas of
// kcm elect a leader, a Deployment rolls out and is updated, the leader is
// killed in the middle of an update and the other replica carries on.
//
// With CLUSTER=kind in the environment all that happens on a kind cluster.
//
// It records every change of every pod from the start and checks at the end
// that at no moment there were too many pods or too few, and that none was
// created twice.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

func main() {
	kcm := flag.String("kcm", "bin/kcm", "the kcm `program` to show")
	flag.Parse()
	// A second Ctrl-C ends the demo at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, *kcm); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted; everything that was started is stopped")
		}
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kcm string) error {
	if _, err := os.Stat(kcm); err != nil {
		return fmt.Errorf("%w; make bin/kcm builds it", err)
	}
	story := &story{start: time.Now()}
	if cluster.OnKind() {
		story.step("A kind cluster: Kubernetes in a container, and real containers in it")
	} else {
		story.step("A control plane: etcd, API server, scheduler and three simulated nodes")
	}
	c, err := cluster.Start(ctx, cluster.WithProgress(progress{story}))
	if err != nil {
		return err
	}
	defer c.Close()
	story.say("the API server is at %s", c.Server())

	logs, err := os.MkdirTemp("", "kcm-demo-")
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.RESTConfig(cluster.Admin))
	if err != nil {
		return err
	}
	dynamic, err := dynamic.NewForConfig(c.RESTConfig(cluster.Admin))
	if err != nil {
		return err
	}
	d := &demo{story: story, cluster: c, client: client, dynamic: dynamic, kcm: kcm, logs: logs}
	defer d.stopReplicas()
	err = d.play(ctx)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w\nthe logs of the replicas are in %s", err, logs)
	}
	return errors.Join(err, os.RemoveAll(logs))
}

// play tells the whole story.
func (d *demo) play(ctx context.Context) error {
	for _, scene := range []func(context.Context) error{
		d.elect, d.rollOut, d.update, d.killTheLeader, d.handOver, d.check,
	} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	d.story.say("")
	lookAround := "make cluster"
	if cluster.OnKind() {
		lookAround += " CLUSTER=kind"
	}
	d.story.say("That was %s. To look around yourself: %s", time.Since(d.story.start).Round(time.Second), lookAround)
	return nil
}

func (d *demo) logFile(name string) string { return filepath.Join(d.logs, name+".log") }
