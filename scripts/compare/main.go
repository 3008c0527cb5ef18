// Command compare runs the scenarios of labs/scenarios with kcm and with the
// original kube-controller-manager and shows the results side by side: a
// scenario that the original fails does not tell the truth about Kubernetes,
// and one that kcm fails is a defect of kcm.
//
// It runs them on the cluster that CLUSTER in the environment names, the
// embedded one or kind.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	pattern := flag.String("run", "", "compare only the scenarios that this `regexp` matches, such as deployment/recreate")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends it at once
	if err := compare(ctx, *pattern); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, pattern string) error {
	kcm, err := runScenarios(ctx, "kcm", pattern)
	if err != nil {
		return err
	}
	original, err := runScenarios(ctx, "original", pattern, "REFERENCE=1")
	if err != nil {
		return err
	}
	fmt.Print(table(kcm, original))
	return verdict(kcm, original)
}
