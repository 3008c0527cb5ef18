package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/kcm-book/kcm-book/scripts/exercise/workspace"
)

// settled is how long nothing is written before a save counts as whole: editors
// write more than once.
const settled = 100 * time.Millisecond

// watch checks now and at each save, until it is interrupted. A save while a check
// runs ends that check: it is about what is no longer there.
func watch(ctx context.Context, w *workspace.Workspace) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	for _, e := range w.Exercises {
		for _, file := range e.Files {
			if err := watcher.Add(filepath.Dir(filepath.Join(w.Dir, file))); err != nil {
				return err
			}
		}
	}
	for {
		checking, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- checkNow(checking, w) }()
		saved(ctx, watcher)
		cancel()
		if err := <-done; err != nil && !errors.Is(err, errNotYet) && checking.Err() == nil {
			return err
		}
		if ctx.Err() != nil {
			fmt.Println()
			return nil
		}
	}
}

func checkNow(ctx context.Context, w *workspace.Workspace) error {
	fmt.Print("\033[2J\033[H") // a clear screen
	begin := time.Now()
	err := check(ctx, w)
	if ctx.Err() == nil {
		fmt.Printf("\n%s, %.1f s. Save a file to check again, Ctrl-C to end.\n", begin.Format(time.TimeOnly), time.Since(begin).Seconds())
	}
	return err
}

// saved waits until a file of code has been saved.
func saved(ctx context.Context, watcher *fsnotify.Watcher) {
	var quiet <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-watcher.Events:
			if !ok {
				return
			}
			if name := event.Name; strings.HasSuffix(name, ".go") || strings.HasSuffix(name, ".txtar") {
				quiet = time.After(settled)
			}
		case <-watcher.Errors:
		case <-quiet:
			return
		}
	}
}
