package play

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// ErrFailed is returned by [Setting.Perform] for a script in which something was not as it says. The narrator has told
// what.
var ErrFailed = errors.New("the script has failed")

// Perform plays a script from its beginning to its end, and tells the narrator. If the script has said that it is not
// for this setting, leftOut is why.
func (s *Setting) Perform(ctx context.Context, script *Script, variables ...string) (leftOut string, err error) {
	dir, err := os.MkdirTemp("", "play-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, filepath.Base(script.Path))
	if err := os.WriteFile(file, script.without(s), 0o644); err != nil {
		return "", err
	}
	h := &house{}
	p := s.play(ctx, h)
	testscript.RunT(h, testscript.Params{
		Files: []string{file},
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, variables...)
			return p.setUp(script, env)
		},
		Cmds:               p.commands(),
		Condition:          s.holds,
		RequireUniqueNames: true,
	})
	narrator, took := p.Narrator, time.Since(p.began)
	switch {
	case h.failed && ctx.Err() != nil:
		narrator.Say(errInterrupted.Error())
		return "", errInterrupted
	case h.failed:
		why := h.why // at the end of the script
		// Its log says at which line it failed.
		if _, at, found := strings.Cut(h.log.String(), "FAIL: "+file); found {
			why = strings.TrimSpace(script.Path + at)
		}
		narrator.Failed(took, why)
		first, _, _ := strings.Cut(why, "\n")
		return "", fmt.Errorf("%w: %s", ErrFailed, first)
	case h.skipped:
		narrator.Skipped(h.why)
		return h.why, nil
	case len(script.Steps) > 0:
		narrator.Title("All steps")
	}
	narrator.Passed(took)
	return "", nil
}

// house is where testscript plays, in place of a test.
type house struct {
	log             strings.Builder
	failed, skipped bool
	why             string // it was skipped, or was fatal
}

func (h *house) Log(args ...any) { fmt.Fprintln(&h.log, args...) }
func (h *house) Verbose() bool   { return false }
func (h *house) Parallel()       {}

func (h *house) Fatal(args ...any) {
	h.why = fmt.Sprint(args...)
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
	var playing sync.WaitGroup
	playing.Go(func() { play(h) })
	playing.Wait()
}
