// Command book keeps the book, the code of kcm and what kcm does in step.
// `book help` lists its verbs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kcm-book/kcm-book/scripts/book/sessions"
	"github.com/kcm-book/kcm-book/scripts/book/site"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := os.Getwd()
	if err == nil {
		err = newCommand(root).ExecuteContext(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// newCommand returns the command for the book in a directory.
func newCommand(root string) *cobra.Command {
	book := group("book", "keep the book, the code of kcm and what kcm does in step")
	book.AddCommand(
		verb(root, "fill", "bring the code in the chapters up to date with kcm/", arguments(0),
			func(w *weave.Book, cmd *cobra.Command, _ []string) error { return w.Fill(cmd.OutOrStdout()) }),
		verb(root, "check", "say what differs, what no chapter shows, and which stage does not compile", arguments(0),
			func(w *weave.Book, cmd *cobra.Command, _ []string) error { return w.Check(cmd.OutOrStdout()) }),
		stage(root),
		stages(root),
		transcripts(root),
		siteCommand(root),
	)
	book.CompletionOptions.DisableDefaultCmd = true
	return book
}

// stage returns the verb that writes and builds the code of a chapter.
func stage(root string) *cobra.Command {
	at := ""
	command := verb(root, "stage NN", "write the code of a chapter to build/stage-NN and build its kcm", arguments(1),
		func(w *weave.Book, cmd *cobra.Command, args []string) error {
			return w.BuildStage(cmd.Context(), args[0], at, cmd.OutOrStdout())
		})
	command.Flags().StringVar(&at, "at", "", "up to this step of the chapter only, to build/stage-NN-STEP")
	return command
}

// stages returns the verb that tests the code of every chapter.
func stages(root string) *cobra.Command {
	all := false
	command := verb(root, "stages", "write, compile and vet the code of every chapter, and test what a chapter changes", arguments(0),
		func(w *weave.Book, cmd *cobra.Command, _ []string) error {
			return w.TestStages(cmd.Context(), all, cmd.OutOrStdout())
		})
	command.Flags().BoolVar(&all, "all", false, "test all packages of each chapter")
	return command
}

// transcripts returns the verbs about what the chapters say to type.
func transcripts(root string) *cobra.Command {
	command := group("transcripts", "run what the chapters say to type")
	atOnce := command.PersistentFlags().IntP("at-once", "j", 4, "how many chapters run side by side; most of the time they wait")
	for use, short := range map[string]string{
		"fill [NN]...":  "put in what is printed where it differs, in all chapters or in some",
		"check [NN]...": "say where what is printed differs, in all chapters or in some",
	} {
		command.AddCommand(&cobra.Command{Use: use, Short: short, RunE: func(cmd *cobra.Command, args []string) error {
			return sessions.Run(cmd.Context(), root, args, cmd.Name() == "fill", *atOnce, cmd.OutOrStdout())
		}})
	}
	return command
}

// siteCommand returns the verb that writes the book as web pages.
func siteCommand(root string) *cobra.Command {
	serve, pdf, port := false, false, 0
	dir := filepath.Join(root, "build", "site")
	command := &cobra.Command{
		Use: "site", Args: arguments(0), Short: "write the book as web pages to build/site, and with --serve show them",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if serve {
				return site.Serve(cmd.Context(), root, dir, port, cmd.OutOrStdout())
			}
			count, err := site.Write(root, dir, pdf)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%d pages; open build/site/index.html\n", count)
			}
			return err
		},
	}
	command.Flags().BoolVar(&serve, "serve", false, "show the pages on this machine, and write and show them anew at each save")
	command.Flags().BoolVar(&pdf, "pdf", false, "have the pages lead to the PDF that make pdf prints of them")
	command.Flags().IntVar(&port, "port", 8000, "the port to show them on; 0 takes a free one")
	command.MarkFlagsMutuallyExclusive("serve", "pdf")
	return command
}

// verb returns a command that reads the book first.
func verb(root, use, short string, args cobra.PositionalArgs, run func(*weave.Book, *cobra.Command, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
		w, err := weave.Open(root)
		if err != nil {
			return err
		}
		return run(w, cmd, args)
	}}
}

// arguments refuses fewer or more arguments, and says how the verb is used.
func arguments(number int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != number {
			return fmt.Errorf("write %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		}
		return nil
	}
}

// group returns a command that does nothing itself but say which verbs it has.
func group(use, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
}
