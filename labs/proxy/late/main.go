// Command late stands between a controller manager and the API server. It passes everything on at once until it is told
// to hold (SIGUSR1). From then on watches of some resources bring nothing any more, and everything else is as before:
//
//	late KUBECONFIG NEW-KUBECONFIG RESOURCE...
//
// A manager that is started with the new kubeconfig goes through it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kcm-book/kcm-book/labs/process"
	"github.com/kcm-book/kcm-book/labs/proxy"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: late KUBECONFIG NEW-KUBECONFIG RESOURCE...")
		os.Exit(2)
	}
	process.Main("late", func(ctx context.Context) error { return run(ctx, os.Args[1], os.Args[2], os.Args[3:]) })
}

// run passes requests on until ctx ends.
func run(ctx context.Context, from, to string, resources []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", from)
	if err != nil {
		return err
	}
	hold, _ := signal.NotifyContext(context.Background(), syscall.SIGUSR1)
	// A watch that is held does not end, either, until who reads it has gone.
	held := func(ctx context.Context, _ []byte, _ time.Time) error {
		if hold.Err() == nil {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	server, err := proxy.Start(config, to, proxy.Watches(held, resources...))
	if err != nil {
		return err
	}
	defer proxy.Close(server)
	<-ctx.Done()
	return nil
}
