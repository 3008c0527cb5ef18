package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	_ "time/tzdata" // time zones of CronJobs

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's auth plugins
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"

	"github.com/kcm-book/kcm-book/labs/controlplane/internal/directory"
)

// programs are the programs that this binary can be, by the name that is its first argument.
var programs = map[string]func(){
	etcdName:                  func() { etcdmain.Main(append([]string{etcdName}, os.Args[1:]...)) },
	apiserverName:             runCobra(func() *cobra.Command { return apiserver.NewAPIServerCommand() }),
	schedulerName:             runCobra(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	kwokName:                  runKwok,
	"kube-controller-manager": runCobra(controllermanager.NewControllerManagerCommand),
	"kubectl":                 runKubectl,
}

// runCobra runs a Kubernetes component the way its own main does.
func runCobra(command func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(command())) }
}

// runKwok does what kwok's own main does.
func runKwok() {
	forgetGlobalFlags()
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ := kwoklog.InitFlags(kwoksignals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err == nil {
		command := kwok.NewCommand(ctx)
		command.PersistentFlags().AddFlagSet(flags)
		err = command.ExecuteContext(ctx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintf(os.Stderr, "kwok: %v\n", err)
		os.Exit(1)
	}
}

// runKubectl runs kubectl as the admin of the cluster in --dir, which must come before kubectl's own arguments. If
// --kubeconfig comes first, kubectl needs no cluster of ours.
func runKubectl() {
	dir, args := directory.CutFlag(os.Args[1:])
	if len(args) == 0 || !strings.HasPrefix(args[0], "--kubeconfig") {
		c, err := directory.OpenRunning(dir)
		if err != nil {
			exit(err)
		}
		// The cluster's own cache is gone with the cluster; another cluster on the same port is not taken for this one.
		os.Setenv("KUBECACHEDIR", c.Path("kubectl-cache"))
		os.Setenv("KUBECONFIG", c.Kubeconfigs["admin"])
	}
	os.Args = append([]string{"kubectl"}, args...)
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}
