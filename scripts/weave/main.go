package main

import (
	"context"
	"errors"
	"fmt"
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
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "weave",
		Short:         "keep the chapters and the code one source",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		&cobra.Command{
			Use:   "fill",
			Short: "bring the blocks of all chapters up to date with the code",
			Args:  cobra.NoArgs,
			RunE:  func(*cobra.Command, []string) error { return fill() },
		},
		&cobra.Command{
			Use:   "check",
			Short: "say what differs, what no chapter shows, and which stage does not compile",
			Args:  cobra.NoArgs,
			RunE:  func(*cobra.Command, []string) error { return check() },
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
				return buildStage(cmd.Context(), number)
			},
		},
		&cobra.Command{
			Use:   "stages",
			Short: "write, build, vet and test the code of every chapter",
			Args:  cobra.NoArgs,
			RunE:  func(cmd *cobra.Command, _ []string) error { return testStages(cmd.Context()) },
		},
	)
	return root
}

// open reads the code and the chapters in the current directory.
func open() (*Weave, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
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

func fill() error {
	w, err := open()
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
		if err := os.WriteFile(filepath.Join(w.source.root, chapter.Path), filled[chapter], 0o644); err != nil {
			return err
		}
		fmt.Println("filled", chapter.Path)
	}
	return nil
}

func check() error {
	w, err := open()
	if err != nil {
		return err
	}
	mistakes := w.check()
	missing, total := w.unshown()
	fmt.Printf("declarations shown: %d of %d\n", total-len(missing), total)
	return errors.Join(mistakes...)
}

func buildStage(ctx context.Context, number int) error {
	w, err := open()
	if err != nil {
		return err
	}
	s, err := w.compiling(number)
	if err != nil {
		return err
	}
	files, err := s.write()
	if err != nil {
		return err
	}
	if err := s.run(ctx, "build", "-ldflags", os.Getenv("KCM_LDFLAGS"), "-o", "bin/", "./kcm/cmd/kcm"); err != nil {
		return err
	}
	fmt.Printf("stage %02d: %d files in %s, kcm in %s/bin\n", number, files, s.directory(), s.directory())
	return nil
}

func testStages(ctx context.Context) error {
	w, err := open()
	if err != nil {
		return err
	}
	for _, chapter := range w.chapters {
		if chapter.Number == 0 {
			continue
		}
		begin := time.Now()
		s, err := w.compiling(chapter.Number)
		if err != nil {
			return err
		}
		files, err := s.write()
		if err != nil {
			return err
		}
		for _, step := range [][]string{
			{"build", "-ldflags", os.Getenv("KCM_LDFLAGS"), "-o", "bin/", "./kcm/cmd/kcm"},
			{"vet", "./..."},
			{"test", "./..."},
		} {
			if err := s.run(ctx, step...); err != nil {
				return err
			}
		}
		fmt.Printf("stage %02d: %3d files, unit tests of %d packages of %d: ✓ %.1f s\n",
			s.number, files, s.tested(), len(s.packages), time.Since(begin).Seconds())
	}
	return nil
}
