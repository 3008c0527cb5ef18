// Command kindcluster is what make's targets run with CLUSTER=kind: it starts a kind cluster that stays, shows it and ends
// it. The directory of the cluster's files is that of labs/cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/cluster"
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
	dir := args[1]
	switch args[0] {
	case "up":
		return up(ctx, dir)
	case "status":
		return status(ctx, dir)
	case "down":
		return down(dir)
	case "kubectl":
		return kubectl(dir, args[2:])
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
	begin := time.Now()
	c, err := cluster.KindUp(ctx, dir, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Printf(usage, time.Since(begin).Seconds(), c.Server(), c.Kubeconfig(cluster.Admin))
	return nil
}

func image(ctx context.Context, file string) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	if err := cluster.WriteManagerImage(ctx, root, file); err != nil {
		return err
	}
	fmt.Printf("%s is in %s: docker load --input %[2]s, or kind load image-archive %[2]s\n", cluster.ManagerImage, file)
	return nil
}

func down(dir string) error {
	err := cluster.KindDown(dir)
	if errors.Is(err, cluster.ErrNotRunning) {
		fmt.Printf("kind: no cluster in %s, nothing to do\n", dir)
		return nil
	}
	if err == nil {
		fmt.Printf("kind: the cluster in %s is gone\n", dir)
	}
	return err
}

// status shows the node and the components that run in it.
func status(ctx context.Context, dir string) error {
	c, err := cluster.AttachKind(dir)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.RESTConfig(cluster.Admin))
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	fmt.Printf("%s in %s\n\n", c.Server(), c.Dir())
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "WHAT\tNAME\tREADY")
	for _, node := range nodes.Items {
		ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		fmt.Fprintf(table, "node\t%s\t%t\n", node.Name, ready)
	}
	for _, pod := range pods.Items {
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		fmt.Fprintf(table, "pod\t%s\t%t\n", pod.Name, ready)
	}
	return table.Flush()
}

// kubectl becomes the kubectl of bin/labcluster, as the admin of the cluster.
func kubectl(dir string, args []string) error {
	c, err := cluster.AttachKind(dir)
	if err != nil {
		return err
	}
	binary, err := cluster.Binary(context.Background(), os.Stderr)
	if err != nil {
		return err
	}
	command := append([]string{binary, "kubectl", "--kubeconfig", c.Kubeconfig(cluster.Admin)}, args...)
	env := append(os.Environ(), "KUBECACHEDIR="+filepath.Join(c.Dir(), "kubectl-cache"))
	return syscall.Exec(binary, command, env)
}
