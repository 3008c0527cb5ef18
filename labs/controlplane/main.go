// Labcluster is a Kubernetes control plane in one binary: etcd, kube-apiserver, kube-scheduler, kwok (which plays the
// nodes), kubectl and the original kube-controller-manager, and the commands that run them together as a lab cluster.
//
// The first argument says what this process is. A program name, such as kube-apiserver, makes it that program, with that
// program's own flags; the word attached before the name ends the program with its standard input. Everything else is a
// command on a lab cluster, whose files are all in one directory.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/version"

	"github.com/kcm-book/kcm-book/labs/controlplane/internal/directory"
)

// attachedWord before a program's name ends the program when its standard input ends. A test has it so, because the
// kernel closes that pipe when the test dies, in whatever way.
const attachedWord = "attached"

func main() {
	if len(os.Args) > 2 && os.Args[1] == attachedWord {
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
		if !errors.Is(err, errSilent) {
			fmt.Fprintf(os.Stderr, "labcluster: %v\n", err)
		}
		os.Exit(exitCode(err))
	}
}

func endWithStdin() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Fprintln(os.Stderr, "labcluster: standard input has ended, and so does this program")
	os.Exit(1)
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
		Args:          cobra.ArbitraryArgs,
		RunE:          helpOrUnknown,
	}
	dir := root.PersistentFlags().String("dir", directory.Default, "directory of the cluster's files")
	root.AddCommand(newUpCommand(dir), newDownCommand(dir), newStatusCommand(dir), newKubectlCommand())
	for _, f := range faults {
		root.AddCommand(newFaultCommand(dir, f))
	}
	for _, name := range programNames {
		root.AddCommand(newProgramCommand(name))
	}
	return root
}

// helpOrUnknown is what labcluster does without a command, or with a word that is none.
func helpOrUnknown(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return root.Help()
	}
	advice := "'bin/labcluster help' lists the commands"
	if similar := root.SuggestionsFor(args[0]); len(similar) > 0 {
		advice = "did you mean " + strings.Join(similar, " or ") + "?"
	}
	return fmt.Errorf("no command %q: %s", args[0], advice)
}

// newProgramCommand shows a program in the help. Main has looked for programs before; it runs only if something stands
// before the program's name.
func newProgramCommand(name string) *cobra.Command {
	return &cobra.Command{
		Use:                name + " [flags]",
		Short:              "Run " + name + " by itself, with its own flags",
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("%s is a program with flags of its own, so its name comes first: bin/labcluster %s [flags]", name, name)
		},
	}
}
