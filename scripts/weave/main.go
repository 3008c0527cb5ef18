package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kcm-book/kcm-book/scripts/book"
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
	command := &cobra.Command{
		Use:           "weave",
		Short:         "keep the chapters and the code one source",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddCommand(
		&cobra.Command{
			Use:   "fill",
			Short: "bring the blocks of all chapters up to date with the code",
			Args:  cobra.NoArgs,
			RunE:  func(cmd *cobra.Command, _ []string) error { return fill(root, cmd.OutOrStdout()) },
		},
		&cobra.Command{
			Use:   "check",
			Short: "say what differs, what no chapter shows, and which stage does not compile",
			Args:  cobra.NoArgs,
			RunE:  func(cmd *cobra.Command, _ []string) error { return check(root, cmd.OutOrStdout()) },
		},
		&cobra.Command{
			Use:   "stage NN",
			Short: "write the code of a chapter to build/stage-NN and build it",
			Args:  cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				number, err := strconv.Atoi(strings.TrimPrefix(args[0], "stage-"))
				if err != nil {
					return fmt.Errorf("%q is no stage: say for example 03", args[0])
				}
				return buildStage(cmd.Context(), root, number, cmd.OutOrStdout())
			},
		},
		&cobra.Command{
			Use:   "stages",
			Short: "write, build, vet and test the code of every chapter",
			Args:  cobra.NoArgs,
			RunE:  func(cmd *cobra.Command, _ []string) error { return testStages(cmd.Context(), root, cmd.OutOrStdout()) },
		},
	)
	return command
}

// open reads the code and the chapters in a directory.
func open(root string) (*Weave, error) {
	chapters, err := book.Read(root)
	if err != nil {
		return nil, err
	}
	source, err := loadSource(root)
	if err != nil {
		return nil, err
	}
	return weave(source, chapters)
}

func fill(root string, out io.Writer) error {
	w, err := open(root)
	if err != nil {
		return err
	}
	filled, err := w.fill()
	if err != nil {
		return err
	}
	for _, chapter := range w.chapters {
		if string(filled[chapter]) == string(chapter.Source) {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, chapter.Path), filled[chapter], 0o644); err != nil {
			return err
		}
		fmt.Fprintln(out, "filled", chapter.Path)
	}
	return nil
}

func check(root string, out io.Writer) error {
	w, err := open(root)
	if err != nil {
		return err
	}
	mistakes := w.check()
	missing, total := w.unshown()
	fmt.Fprintf(out, "declarations shown: %d of %d\n", total-len(missing), total)
	return errors.Join(mistakes...)
}

func buildStage(ctx context.Context, root string, number int, out io.Writer) error {
	w, err := open(root)
	if err != nil {
		return err
	}
	s, err := w.compiling(number)
	if err != nil {
		return err
	}
	if len(s.packages) == 0 {
		return fmt.Errorf("chapter %02d has no code yet: its kcm is the finished one", number)
	}
	files, err := s.write()
	if err != nil {
		return err
	}
	if err := s.build(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "stage %02d: %d files in %s, kcm in %s/bin\n", number, files, s.directory(), s.directory())
	return nil
}

func testStages(ctx context.Context, root string, out io.Writer) error {
	w, err := open(root)
	if err != nil {
		return err
	}
	for _, chapter := range w.chapters {
		begin := time.Now()
		s, err := w.compiling(chapter.Number)
		if err != nil {
			return err
		}
		if len(s.packages) == 0 {
			continue // no code yet
		}
		files, err := s.write()
		if err != nil {
			return err
		}
		if err := s.build(ctx); err != nil {
			return err
		}
		for _, step := range []string{"vet", "test"} {
			if err := s.run(ctx, step, "./..."); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "stage %02d: %3d files, unit tests of %d packages of %d: ✓ %.1f s\n",
			s.number, files, s.tested(), len(s.packages), time.Since(begin).Seconds())
	}
	return nil
}
