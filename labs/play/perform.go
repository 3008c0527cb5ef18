package play

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// SkippedError is returned by [Setting.Perform] for a script that has said, or
// had it said for it, that it is not for this setting.
type SkippedError struct{ Why string }

func (e *SkippedError) Error() string { return "left out: " + e.Why }

// ErrFailed is returned by [Setting.Perform] for a script in which something was
// not as it says. The narrator has told what.
var ErrFailed = errors.New("the script has failed")

// Perform plays a script from its beginning to its end, and tells the narrator.
func (s *Setting) Perform(ctx context.Context, script *Script, variables ...string) error {
	dir, err := os.MkdirTemp("", "play-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, filepath.Base(script.Path))
	if err := os.WriteFile(file, script.without(s), 0o644); err != nil {
		return err
	}
	params := s.Params(ctx, script, variables...)
	params.Files = []string{file}
	h := &house{}
	begin := time.Now()
	testscript.RunT(h, params)
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case h.skipped:
		return &SkippedError{h.why}
	case !h.failed:
		return nil
	}
	// The last line of the log that begins so says at which line of the script it failed.
	_, why, _ := strings.Cut(h.log.String(), "FAIL: "+file)
	if s.Narrator != nil {
		s.Narrator.Failed(time.Since(begin), strings.TrimSpace(script.Path+why))
	}
	return ErrFailed
}

// house is where testscript plays, in place of a test.
type house struct {
	log             strings.Builder
	failed, skipped bool
	why             string
}

func (h *house) Log(args ...any) { fmt.Fprintln(&h.log, args...) }
func (h *house) Verbose() bool   { return false }
func (h *house) Parallel()       {}

func (h *house) Fatal(args ...any) {
	h.Log(args...)
	h.FailNow()
}

func (h *house) FailNow() {
	h.failed = true
	runtime.Goexit()
}

func (h *house) Skip(args ...any) {
	h.skipped, h.why = true, fmt.Sprint(args...)
	runtime.Goexit()
}

// Run plays in a goroutine of its own, so that FailNow can end it.
func (h *house) Run(_ string, play func(testscript.T)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		play(h)
	}()
	<-done
}
