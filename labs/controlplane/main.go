// Labcluster is a Kubernetes control plane in one binary: etcd, kube-apiserver, kube-scheduler, kwok (which plays the
// nodes), kubectl and the original kube-controller-manager, and the commands that run them together as a lab cluster.
//
// The first argument says what this process is. A program name, such as kube-apiserver, makes it that program, with that
// program's own flags. Everything else is a command on a lab cluster, whose files are all in one directory.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/version"
)

func main() {
	if len(os.Args) > 1 {
		if run, ok := programs[os.Args[1]]; ok {
			// The program finds its arguments where it expects them.
			os.Args = os.Args[1:]
			run()
			return
		}
	}
	forgetGlobalFlags()
	if err := newCommand().Execute(); err != nil {
		if !errors.Is(err, errSilent) {
			fmt.Fprintf(os.Stderr, "labcluster: %v\n", err)
		}
		os.Exit(exitCode(err))
	}
}

// forgetGlobalFlags drops the flags that linked-in packages have added to every command of the process.
func forgetGlobalFlags() {
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "labcluster",
		Short:         "A Kubernetes control plane for labs and tests, without containers",
		Version:       version.Get().GitVersion,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	dir := root.PersistentFlags().String("dir", ".labcluster", "directory of the cluster's files")
	root.AddCommand(newUpCommand(dir), newDownCommand(dir), newStatusCommand(dir), newKubectlCommand())
	for _, f := range faults {
		root.AddCommand(newFaultCommand(dir, f))
	}
	for _, name := range programNames {
		root.AddCommand(newProgramCommand(name))
	}
	return root
}

// newProgramCommand shows a program in the help. It never runs: main has looked for programs before.
func newProgramCommand(name string) *cobra.Command {
	return &cobra.Command{
		Use:                name + " [flags]",
		Short:              "Run " + name + " by itself, with its own flags",
		DisableFlagParsing: true,
		Run:                func(*cobra.Command, []string) {},
	}
}
