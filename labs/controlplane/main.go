// Labcluster is a Kubernetes control plane in one binary: etcd, kube-apiserver, kube-scheduler, kwok (which plays the
// nodes) and kubectl, and the commands that run them together as a lab cluster.
//
// The first argument says what this process is. A program name, such as kube-apiserver, makes it that program, with
// that program's own flags; the word attached before the name ends the program with its standard input. Everything else
// is a command on a lab cluster, whose files are all in one directory.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/version"

	"github.com/kcm-book/kcm-book/labs/controlplane/internal/directory"
	"github.com/kcm-book/kcm-book/labs/controlplane/internal/supervised"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == supervised.Attached {
		os.Args = os.Args[1:]
		go endWithStdin()
	}
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
		exit(err)
	}
}

// endWithStdin is how a component ends with the supervisor: the kernel closes that pipe when the other end dies, in
// whatever way.
func endWithStdin() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Fprintln(os.Stderr, "labcluster: standard input has ended, and so does this program")
	os.Exit(1)
}

// forgetGlobalFlags drops the flags that linked-in packages have added to every command of the process.
func forgetGlobalFlags() {
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)
}

// Exit codes other than 1.
const (
	exitIncomplete  = 3   // the cluster runs, but not all of its components
	exitNotRunning  = 4   // no cluster runs in the directory; other commands end with it too
	exitInterrupted = 130 // what a shell expects of a program that Ctrl-C has ended
)

// exitError ends labcluster with another code than 1. Without an error, the supervisor has told the user.
type exitError struct {
	error
	code int
}

func exit(err error) {
	code := 1
	var with exitError
	switch {
	case errors.As(err, &with):
		err, code = with.error, with.code
	case errors.Is(err, directory.ErrNone), errors.Is(err, directory.ErrDead):
		code = exitNotRunning
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "labcluster: %v\n", err)
	}
	os.Exit(code)
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "labcluster",
		Short: "A Kubernetes control plane for labs and tests, without containers",
		Long: `A Kubernetes control plane for labs and tests, without containers

These are programs, each with its own flags, when their name comes first:
  etcd, kube-apiserver, kube-scheduler, kwok, kubectl`,
		Version:       version.Get().GitVersion,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	dir := root.PersistentFlags().String("dir", directory.Default, "directory of the cluster's files")
	add := func(use, short string, run func(args []string) error) *cobra.Command {
		c := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs}
		c.RunE = func(_ *cobra.Command, args []string) error { return run(args) }
		root.AddCommand(c)
		return c
	}
	nodes, attach := 3, false
	ups := add("up", "Start a cluster and return when pods can be scheduled", func([]string) error {
		return up(*dir, nodes, attach)
	}).Flags()
	ups.IntVar(&nodes, "nodes", nodes, "number of nodes")
	ups.BoolVar(&attach, "attach", attach, "stay in the foreground, print the cluster's state as a line of JSON "+
		"when it is ready, and end the cluster when standard input ends")
	add("down", "End the cluster and remove its files", func([]string) error { return down(*dir) })
	add("status", "Show the processes of the cluster; exit with 3 if one does not run, with 4 if none does",
		func([]string) error { return showStatus(*dir) })
	for name, help := range map[string]string{
		"kill":    "Kill a component with SIGKILL; it stays dead until it is restarted",
		"stop":    "Freeze a component with SIGSTOP",
		"cont":    "Let a frozen component go on with SIGCONT",
		"restart": "End a component if it runs, start it again and wait until it is ready",
	} {
		fault := add(name+" COMPONENT", help, func(args []string) error { return disturb(*dir, name, args) })
		fault.Args = cobra.ArbitraryArgs
	}
	return root
}
