// Command book keeps the book, the code of kcm and what kcm does in step. `book help` lists its verbs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
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

func newCommand(root string) *cobra.Command {
	book := group("book", "keep the book, the code of kcm and what kcm does in step")
	at, all := "", false
	stage := verb(root, "stage NN", "write the code of a chapter to build/stage-NN and build its kcm",
		func(w *weave.Book, cmd *cobra.Command, args []string) error {
			return w.BuildStage(cmd.Context(), args[0], at, cmd.OutOrStdout())
		})
	stage.Args = cobra.ExactArgs(1)
	stage.Flags().StringVar(&at, "at", "", "up to this step of the chapter only, to build/stage-NN-STEP")
	stages := verb(root, "stages", "write, compile and vet the code of every chapter, and test what a chapter changes",
		func(w *weave.Book, cmd *cobra.Command, _ []string) error {
			return w.TestStages(cmd.Context(), all, cmd.OutOrStdout())
		})
	stages.Flags().BoolVar(&all, "all", false, "test all packages of each chapter")
	book.AddCommand(
		verb(root, "fill", "bring the code in the chapters up to date with kcm/",
			func(w *weave.Book, cmd *cobra.Command, _ []string) error { return w.Fill(cmd.OutOrStdout()) }),
		verb(root, "check", "say what differs, what no chapter shows, and which stage does not compile",
			func(w *weave.Book, cmd *cobra.Command, _ []string) error { return w.Check(cmd.OutOrStdout()) }),
		stage, stages, transcripts(root), pages(root))
	book.CompletionOptions.DisableDefaultCmd = true
	return book
}

// verb returns a command that reads the book first.
func verb(root, use, short string, run func(*weave.Book, *cobra.Command, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, args []string) error {
		w, err := weave.Open(root)
		if err != nil {
			return err
		}
		return run(w, cmd, args)
	}}
}

func transcripts(root string) *cobra.Command {
	command := group("transcripts", "run what the chapters say to type")
	for use, short := range map[string]string{
		"fill [NN]...":  "put in what is printed where it differs, in all chapters or in some",
		"check [NN]...": "say where what is printed differs, in all chapters or in some",
	} {
		command.AddCommand(&cobra.Command{Use: use, Short: short, RunE: func(cmd *cobra.Command, args []string) error {
			return sessions.Run(cmd.Context(), root, args, cmd.Name() == "fill", cmd.OutOrStdout())
		}})
	}
	return command
}

// pages returns the verb that writes the book as web pages.
func pages(root string) *cobra.Command {
	serve, pdf, port := false, false, 0
	command := &cobra.Command{
		Use: "site", Args: cobra.NoArgs, Short: "write the book as web pages to build/site, and with --serve show them",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if serve {
				return site.Serve(cmd.Context(), root, port, cmd.OutOrStdout())
			}
			return site.Write(root, pdf, cmd.OutOrStdout())
		},
	}
	command.Flags().BoolVar(&serve, "serve", false,
		"show the pages on this machine, and write and show them anew at each save")
	command.Flags().BoolVar(&pdf, "pdf", false, "have the pages lead to the PDF that make pdf prints of them")
	command.Flags().IntVar(&port, "port", 8000, "the port to show them on; 0 takes a free one")
	command.MarkFlagsMutuallyExclusive("serve", "pdf")
	return command
}

// group returns a command that does nothing itself but say which verbs it has.
func group(use, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
}
