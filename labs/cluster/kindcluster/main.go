// Command kindcluster is what make's targets run with CLUSTER=kind: it starts a kind cluster that stays, shows it, runs
// kubectl on it and ends it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
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
	if len(args) < 2 {
		return errors.New("give it up, status or down and a directory, kubectl, a directory and kubectl's arguments, or image and a file")
	}
	switch args[0] {
	case "up":
		return up(ctx, args[1])
	case "status":
		return kind.Status(ctx, args[1], os.Stdout)
	case "down":
		return down(args[1])
	case "kubectl":
		return kubectl(ctx, args[1], args[2:])
	case "image":
		return image(ctx, args[1])
	}
	return fmt.Errorf("no command %q: it is up, status, down, kubectl or image", args[0])
}

const usage = `kind: ready after %.1f s at %s

    export KUBECONFIG=%s

    make kubectl CLUSTER=kind ARGS="get nodes"     # or your own kubectl
    make cluster-status CLUSTER=kind
    make cluster-down CLUSTER=kind                 # ends it and removes its files

No controller manager runs.
`

func up(ctx context.Context, dir string) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	begin := time.Now()
	files, err := kind.Up(ctx, root, dir, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Printf(usage, time.Since(begin).Seconds(), files.Server, files.Kubeconfigs[string(cluster.Admin)])
	return nil
}

func down(dir string) error {
	err := kind.Down(dir)
	if errors.Is(err, kind.ErrNotRunning) {
		fmt.Printf("kind: no cluster in %s, nothing to do\n", dir)
		return nil
	}
	if err == nil {
		fmt.Printf("kind: the cluster in %s is gone\n", dir)
	}
	return err
}

// kubectl becomes the kubectl of bin/labcluster, as the admin of the cluster.
func kubectl(ctx context.Context, dir string, args []string) error {
	kubeconfig, err := kind.Kubeconfig(dir)
	if err != nil {
		return err
	}
	binary, err := cluster.Binary(ctx, os.Stderr)
	if err != nil {
		return err
	}
	command := append([]string{binary, "kubectl", "--kubeconfig", kubeconfig}, args...)
	env := append(os.Environ(), "KUBECACHEDIR="+filepath.Join(dir, "kubectl-cache"))
	return syscall.Exec(binary, command, env)
}

func image(ctx context.Context, file string) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	if err := kind.WriteManagerImage(ctx, root, file); err != nil {
		return err
	}
	fmt.Printf("%s is in %s: docker load --input %[2]s, or kind load image-archive %[2]s\n", kind.ManagerImage, file)
	return nil
}
