package app

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	metricsfeatures "k8s.io/component-base/metrics/features"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"

	"github.com/kcm-book/kcm-book/kcm/app/options"
)

const description = `kcm runs the control loops of Kubernetes. A control loop looks at the state of
the cluster through the API server, compares it with the state that somebody
asked for, and makes changes that bring the first closer to the second.

It takes the flags of kube-controller-manager and can run in its place for the
loops that it has.`

// NewControllerManagerCommand returns the kcm command.
func NewControllerManagerCommand() *cobra.Command {
	opts, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		panic(err) // the defaults contradict each other: a mistake in this program
	}
	return newCommand("kcm", description, opts)
}

// newCommand returns the command of a controller manager with these options.
func newCommand(name, description string, opts *options.KubeControllerManagerOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:  name,
		Long: description,
		Args: noArguments,
		// The loops watch APIs that are deprecated as well. Warnings about
		// them would tell the reader of the log nothing to act on.
		PersistentPreRun: func(*cobra.Command, []string) {
			rest.SetDefaultWarningHandler(rest.NoWarnings{})
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			return runCommand(cmd, opts)
		},
	}
	addFlags(cmd, opts)
	return cmd
}

// noArguments refuses everything that is not a flag, and names it: a manager
// started with a word too many was meant to do something else. It lets an empty
// argument pass, which is what a template leaves where it has nothing to say.
func noArguments(cmd *cobra.Command, args []string) error {
	if slices.ContainsFunc(args, func(arg string) bool { return arg != "" }) {
		return fmt.Errorf("unexpected arguments %q; %s takes flags only", args, cmd.CommandPath())
	}
	return nil
}

// addFlags gives the command its flags, and a --help that shows them in
// groups as wide as the terminal.
func addFlags(cmd *cobra.Command, opts *options.KubeControllerManagerOptions) {
	groups := opts.Flags(knownControllers(opts.Name))
	verflag.AddFlags(groups.FlagSet("global"))
	globalflag.AddGlobalFlags(groups.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, name := range groups.Order {
		cmd.Flags().AddFlagSet(groups.FlagSet(name))
	}
	// A mistake gets one line. All of --help would push that line away.
	cmd.SilenceUsage = true
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help lists all flags", err, cmd.CommandPath())
	})
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, groups, columns)
}

// runCommand runs the manager until it fails or a signal stops it. A second
// signal ends the process at once.
func runCommand(cmd *cobra.Command, opts *options.KubeControllerManagerOptions) error {
	known := knownControllers(opts.Name)
	if err := opts.Validate(known); err != nil {
		return err
	}
	if err := opts.ApplyLogs(); err != nil {
		return err
	}
	cliflag.PrintFlags(cmd.Flags())
	ctx := server.SetupSignalContext()
	options.LogFlagsWithoutEffect(ctx, cmd.Flags())
	options.LogReadableKeys(ctx, cmd.Flags())

	c, err := opts.Config(known)
	if err != nil {
		return err
	}
	completed, err := c.Complete()
	if err != nil {
		return err
	}
	return Run(ctx, completed)
}

// init puts the feature gates of logging and metrics beside those that the
// libraries for API servers bring.
func init() {
	utilruntime.Must(logsapi.AddFeatureGates(feature.DefaultMutableFeatureGate))
	utilruntime.Must(metricsfeatures.AddFeatureGates(feature.DefaultMutableFeatureGate))
}
