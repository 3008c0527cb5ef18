package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kcm-book/kcm-book/scripts/book"
)

// patience is how long a command that only looks is repeated.
const patience = 20 * time.Second

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
		Use:           "transcripts",
		Short:         "run what the chapters tell their readers to type",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for use, short := range map[string]string{
		"fill [CHAPTER]...":  "put in what is printed where it differs",
		"check [CHAPTER]...": "say where what is printed differs",
	} {
		root.AddCommand(&cobra.Command{
			Use:   use,
			Short: short,
			RunE: func(cmd *cobra.Command, args []string) error {
				return runBook(cmd.Context(), cmd.Name() == "fill", args)
			},
		})
	}
	return root
}

// runBook runs the sessions of the chapters whose numbers are given, or of all.
func runBook(ctx context.Context, fill bool, numbers []string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	chapters, err := book.Read(root)
	if err != nil {
		return err
	}
	if chapters, err = chosen(chapters, numbers); err != nil {
		return err
	}
	var failures []error
	for _, chapter := range chapters {
		if ctx.Err() != nil {
			break
		}
		begin := time.Now()
		count, err := runChapter(ctx, root, chapter, fill)
		failures = append(failures, err)
		if count > 0 {
			mark := "✓"
			if err != nil {
				mark = "✗"
			}
			fmt.Printf("chapter %02d: %2d commands %s %.1f s\n", chapter.Number, count, mark, time.Since(begin).Seconds())
		}
	}
	return errors.Join(append(failures, ctx.Err())...)
}

// chosen returns the chapters with these numbers, in the order of the book, or
// all where none is given.
func chosen(chapters []*book.Chapter, numbers []string) ([]*book.Chapter, error) {
	if len(numbers) == 0 {
		return chapters, nil
	}
	wanted := map[int]bool{}
	for _, word := range numbers {
		number, err := strconv.Atoi(word)
		if err != nil || !slices.ContainsFunc(chapters, func(c *book.Chapter) bool { return c.Number == number }) {
			return nil, fmt.Errorf("there is no chapter %s: say for example 03", word)
		}
		wanted[number] = true
	}
	return slices.DeleteFunc(chapters, func(c *book.Chapter) bool { return !wanted[c.Number] }), nil
}

// runChapter runs the session of a chapter. It returns how many commands it has.
func runChapter(ctx context.Context, root string, chapter *book.Chapter, fill bool) (count int, err error) {
	all, err := exchangesOf(chapter)
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, nil
	}
	s, err := openSession(root)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.close()) }()

	bodies := map[*book.Block]string{}
	var failures []error
	for _, e := range all {
		if e.setup {
			if err := s.setUp(ctx, e.command); err != nil {
				failures = append(failures, fmt.Errorf("%s: %s %w", e.block.Position(e.line), e.command, err))
				break
			}
			continue
		}
		out, err := s.observe(ctx, e)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %s: %w; so far it has printed:\n%s", e.block.Position(e.line), strings.TrimSpace(e.command), err, out))
			break
		}
		if same(e.shown, out) {
			out = e.shown
		} else if !fill {
			failures = append(failures, fmt.Errorf(
				"%s: %s\nprints\n%s\nand the chapter shows\n%s\n(if that is as it should be, make transcripts takes it over)",
				e.block.Position(e.line), strings.TrimSpace(e.command), indent(out), indent(e.shown)))
		}
		bodies[e.block] += e.typed + out
	}
	if err := errors.Join(failures...); err != nil || !fill {
		return len(all), err
	}
	filled, err := chapter.Fill(bodies)
	if err != nil {
		return len(all), err
	}
	return len(all), os.WriteFile(filepath.Join(root, chapter.Path), filled, 0o644)
}

// observe runs a command and returns what it prints: if it only looks, once it
// prints what the chapter shows, or else after a while.
func (s *session) observe(ctx context.Context, e *exchange) (string, error) {
	deadline := time.Now().Add(patience)
	for {
		out, err := s.run(ctx, strings.TrimSpace(e.command))
		if err != nil || same(e.shown, out) || e.shown == "" || !e.onlyLooks() || time.Now().After(deadline) {
			return out, err
		}
		if _, err := s.run(ctx, "sleep 0.3"); err != nil {
			return out, err
		}
	}
}

func indent(text string) string {
	if text == "" {
		return "    (nothing)"
	}
	return "    " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ")
}
