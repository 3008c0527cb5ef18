// Command kindcluster is what make's targets run with CLUSTER=kind: it starts a kind cluster that stays, ends
// it, and writes kcm's image.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/kind"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted; nothing is left running")
		}
		fmt.Fprintln(os.Stderr, "kind:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("give it up or down and a directory, or image and a file")
	}
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	switch dir := args[1]; args[0] {
	case "up":
		begin := time.Now()
		files, err := kind.Up(ctx, root, dir, os.Stderr)
		if err == nil {
			fmt.Printf(usage, time.Since(begin).Seconds(), files.Server, files.Kubeconfigs[string(cluster.Admin)])
		}
		return err
	case "down":
		err := kind.Down(dir)
		if errors.Is(err, kind.ErrNotRunning) {
			fmt.Printf("kind: no cluster in %s, nothing to do\n", dir)
			return nil
		}
		if err == nil {
			fmt.Printf("kind: the cluster in %s is gone\n", dir)
		}
		return err
	case "image":
		err := kind.WriteManagerImage(ctx, root, dir)
		if err == nil {
			fmt.Printf("%s is in %s: docker load --input %[2]s, or kind load image-archive %[2]s\n", kind.ManagerImage, dir)
		}
		return err
	}
	return fmt.Errorf("no command %q: it is up, down or image", args[0])
}

const usage = `kind: ready after %.1f s at %s

    export KUBECONFIG=%s

    make kubectl CLUSTER=kind ARGS="get nodes"     # or your own kubectl
    make cluster-status CLUSTER=kind
    make cluster-down CLUSTER=kind                 # ends it and removes its files

No controller manager runs.
`
