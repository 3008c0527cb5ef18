// Command kindcluster runs clusters of kind, with one node, in which the control plane runs and pods too. It needs
// Docker or Podman. With CLUSTER=kind it is to labs/cluster and to make what bin/labcluster is otherwise, and takes the
// same words.
//
// A cluster is kubeadm's, without its controller manager (which stays with --joining), and with what the embedded
// cluster has: the audit log, a second key for service accounts, and components that can be frozen and killed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

var errInterrupted = errors.New("interrupted; nothing is left running")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// Who reads the output may go first; the cluster is then still to be removed.
	signal.Ignore(syscall.SIGPIPE)
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kind:", err)
		if errors.Is(err, errInterrupted) {
			os.Exit(130) // so a shell, and labs/cluster, expect it of a program that has left nothing
		}
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir := pflag.String("dir", "", "directory of the cluster's files")
	attach := pflag.Bool("attach", false, "print where its files are as a line of JSON when it is ready, "+
		"and remove it when standard input ends")
	pflag.Int("nodes", 1, "for bin/labcluster: a second node of kind would take as much memory again, see --workers")
	pflag.Parse()
	switch command := pflag.Arg(0); command {
	case "up":
		return up(ctx, *dir, *attach)
	case "down":
		return down(*dir)
	case "kill", "stop", "cont", "restart":
		c, err := find(*dir)
		if err == nil {
			err = c.findNode()
		}
		if err != nil {
			return err
		}
		return c.disturb(ctx, command, pflag.Arg(1))
	case "image":
		file := pflag.Arg(1)
		err := writeManagerImage(ctx, file)
		if err == nil {
			fmt.Printf("%s is in %s: docker load --input %[2]s, or kind load image-archive %[2]s\n", managerImage, file)
		}
		return err
	}
	return errors.New("give it up or down; kill, stop, cont or restart and a component; or image and a file")
}

// up creates a cluster. If it is attached, it ends with standard input, or by a signal.
func up(ctx context.Context, dir string, attach bool) error {
	begin := time.Now()
	ctx, end := context.WithCancel(ctx)
	defer end()
	if attach {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			end()
		}()
	}
	c, err := create(ctx, dir)
	if err != nil {
		return err
	}
	if !attach {
		fmt.Printf(usage, time.Since(begin).Seconds(), c.files.Server, c.files.Kubeconfigs[cluster.Admin])
		return nil
	}
	if err := json.NewEncoder(os.Stdout).Encode(c.files); err != nil {
		return errors.Join(err, c.remove())
	}
	<-ctx.Done()
	return c.remove()
}

// down removes the cluster in dir, or what is left of it, and its files.
func down(dir string) error {
	c, err := find(dir)
	if errors.Is(err, errNotRunning) {
		fmt.Printf("kind: no cluster in %s, nothing to do\n", dir)
		return nil
	}
	if err == nil {
		err = c.remove()
	}
	if err == nil {
		fmt.Printf("kind: the cluster in %s is gone\n", dir)
	}
	return err
}

const usage = `kind: ready after %.1f s at %s

    export KUBECONFIG=%s

    make kubectl CLUSTER=kind ARGS="get nodes"     # or your own kubectl
    make cluster-status CLUSTER=kind
    make cluster-down CLUSTER=kind                 # ends it and removes its files
`
