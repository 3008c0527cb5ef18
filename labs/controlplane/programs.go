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
)

// programs are the programs that this binary can be, by the name that is its first argument.
var programs = map[string]func(){
	etcdName:                  runEtcd,
	apiserverName:             runCobra(func() *cobra.Command { return apiserver.NewAPIServerCommand() }),
	schedulerName:             runCobra(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	kwokName:                  runKwok,
	"kube-controller-manager": runCobra(controllermanager.NewControllerManagerCommand),
	"kubectl":                 runKubectl,
}

// programNames are the programs that the help shows besides kubectl, in the order in which a cluster needs them.
var programNames = []string{etcdName, apiserverName, schedulerName, kwokName, "kube-controller-manager"}

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

// runKubectl runs kubectl as the admin of the cluster in --dir, which must come before kubectl's own arguments.
func runKubectl() {
	dir, args := cutDirFlag(os.Args[1:])
	c, err := openRunning(dir)
	if err != nil {
		fmt.Fprintf(os.Stderr, "labcluster: %v\n", err)
		os.Exit(1)
	}
	os.Setenv("KUBECONFIG", c.Kubeconfigs["admin"])
	os.Args = append([]string{"kubectl"}, args...)
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}

// cutDirFlag takes a leading --dir off kubectl's arguments.
func cutDirFlag(args []string) (dir string, rest []string) {
	if len(args) > 1 && args[0] == "--dir" {
		return args[1], args[2:]
	}
	if len(args) > 0 {
		if dir, ok := strings.CutPrefix(args[0], "--dir="); ok {
			return dir, args[1:]
		}
	}
	return ".labcluster", args
}

func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl [--dir DIR] [kubectl's arguments]",
		Short:              "Run kubectl as the admin of the cluster",
		DisableFlagParsing: true,
		Run:                func(*cobra.Command, []string) { runKubectl() },
	}
}
