package main

import (
	"context"
	"errors"
	"fmt"
	"os"

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
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"
)

// programs are the programs that this binary can be, by the name that is its first argument.
var programs = map[string]func(){
	etcdName:      func() { etcdmain.Main(append([]string{etcdName}, os.Args[1:]...)) },
	apiserverName: runCobra(func() *cobra.Command { return apiserver.NewAPIServerCommand() }),
	schedulerName: runCobra(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	kwokName:      runKwok,
	"kubectl":     func() { kubectlutil.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand())) },
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
