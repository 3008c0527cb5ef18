// Command play plays scripts of labs/play: the labs of the book, the demo, the
// scenarios with kcm and the original side by side, and your own.
//
// In the environment, CLUSTER=kind plays on a kind cluster, REFERENCE=1 with the original kube-controller-manager,
// VIEW=1 shows the loops of a lab on a page, KEEP=1 leaves everything up at the end, STEP=1 waits for Enter before
// each step, and KCM names another program in place of the book's kcm.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/process"
)

func main() {
	klog.SetLogger(klog.Logger{}) // what client-go says of watches that break off says nothing about a script
	process.Main("play", command().ExecuteContext)
}

// inRoot is an error if we do not run in the root of the repository.
func inRoot() error {
	root, err := cluster.Root()
	if dir, _ := os.Getwd(); err == nil && dir != root {
		err = fmt.Errorf("run this in %s, the root of the repository", root)
	}
	return err
}

// newNarrator tells of what is played as the environment asks for.
func newNarrator() play.Narrator { return play.NewTeller(os.Stdout, os.Getenv("STEP") != "") }

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "play",
		Short:         "Play what a controller manager does: labs, scenarios, your own scripts",
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(*cobra.Command, []string) error { return inRoot() },
	}
	add := func(use, short, more string, takes cobra.PositionalArgs, do func(context.Context, []string) error) {
		root.AddCommand(&cobra.Command{
			Use: use, Short: short, Long: short + more, Args: takes,
			DisableFlagParsing: strings.HasSuffix(use, "[flags]"), // they are as those of bench
			RunE:               func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), args) },
		})
	}
	add("file FILE", "Play a script of your own; all loops run, and it has a namespace",
		".\n\nchapters/language.md has the rest. The verbs:\n\n"+play.Verbs(), cobra.ExactArgs(1), playFile)
	add("lab NN", "Play the lab of a chapter, so that one can watch", "", cobra.ExactArgs(1), playLab)
	add("labs", "Play all labs side by side, and sum them up in a table", "", cobra.NoArgs, playAll)
	add("scenarios [REGEXP]", "Play the scenarios that match with kcm", "", cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error { return playScenarios(ctx, append(args, "")[0], "kcm") })
	add("compare [REGEXP]", "Play the scenarios that match with kcm and with the original, side by side",
		". With REFERENCE=1 the original plays alone.", cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error {
			managers := []string{"kcm", "original"}
			if os.Getenv("REFERENCE") != "" {
				managers = managers[1:]
			}
			return playScenarios(ctx, append(args, "")[0], managers...)
		})
	add("faults [flags]", "Play workloads with one fault each, and look for what the manager then does wrong",
		"", nil, playFaults)
	add("odd [flags]", "Have a manager live with odd objects and with faults, and look for what is wrong",
		"", nil, playOdd)
	add("recordings [NN...]", "Record what moves in chapters; without them, in all",
		"", nil, record)
	return root
}
