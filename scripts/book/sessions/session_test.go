package sessions

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// openTestShell opens the shell of a session without its cluster.
func openTestShell(t *testing.T) *session {
	t.Helper()
	s, err := openSession(t.TempDir(), ".labcluster-transcripts/03")
	require.NoError(t, err)
	t.Cleanup(s.closeShell)
	binaries := filepath.Join(s.root, "bin")
	require.NoError(t, os.Mkdir(binaries, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(binaries, "kcm"), []byte("#!/bin/sh\necho kcm of the stage\n"), 0o755))
	return s
}

func TestASessionIsOneShellInWhichAReaderCouldType(t *testing.T) {
	t.Parallel()
	s := openTestShell(t)
	for _, step := range []struct{ command, want string }{
		{"PATH=$PWD/bin:$PATH", ""},
		{"kcm", "kcm of the stage\n"},
		{"x=1", ""},
		{"echo $x", "1\n"},
		{"printf 'no end of line'", "no end of line\n"},
		{"printf 'a  \\n\\nb\\n'", "a\n\nb\n"},
		{"echo \"it's\" \\\n  'two lines'", "it's two lines\n"},
		{"echo wrong >&2", "wrong\n"},
		{"false", ""},
		{"echo $?", "1\n"},
		{"cat", ""}, // does not wait for input
		{"cd /", ""},
		{"pwd", "/\n"},
		{"no-such-command", "bash: no-such-command: command not found\n"},
		{"echo $LABCLUSTER_DIR", ".labcluster\n"},
		{"echo " + s.root + "/labs/web.yaml", "labs/web.yaml\n"},
		{"sleep 1000 &", ""},
		{"kill -9 %1; wait %1", ""},
		{"echo $?", "137\n"},
	} {
		got, err := s.run(t.Context(), step.command)
		require.NoError(t, err, step.command)
		require.Equal(t, step.want, got, step.command)
	}
}

func TestWhatSetsUpAChapterHasToSucceed(t *testing.T) {
	t.Parallel()
	s := openTestShell(t)
	_, err := s.setUp(t.Context(), &exchange{command: "echo nobody sees this"})
	require.NoError(t, err)
	out, err := s.setUp(t.Context(), &exchange{command: "echo why; (exit 3)"})
	require.EqualError(t, err, "has failed")
	assert.Equal(t, "why\nexit code of setup: 3\n", out)
	_, err = s.setUp(t.Context(), &exchange{command: `eval "$(echo export X=1)"`})
	require.NoError(t, err)
	out, err = s.run(t.Context(), "echo $X")
	require.NoError(t, err)
	assert.Equal(t, "1\n", out, "it is the same shell")
}

func TestAShellThatHasEndedSaysSo(t *testing.T) {
	t.Parallel()
	s := openTestShell(t)
	out, err := s.run(t.Context(), "echo last words; exit")
	require.EqualError(t, err, "the shell has ended")
	assert.Equal(t, "last words\n", out)
}

func TestACommandThatDoesNotEndIsLeftWithItsContext(t *testing.T) {
	t.Parallel()
	s := openTestShell(t)
	ctx, cancel := context.WithCancel(t.Context())
	fifo := filepath.Join(s.root, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	go func() {
		_, _ = os.ReadFile(fifo) // until the shell has opened and closed it
		cancel()
	}()
	_, err := s.run(ctx, ": > fifo; sleep 1000")
	require.ErrorIs(t, err, context.Canceled)
}

func TestWhatASessionHasStartedEndsWithIt(t *testing.T) {
	t.Parallel()
	s := openTestShell(t)
	out, err := s.run(t.Context(), "sleep 1000 & echo $!")
	require.NoError(t, err)
	cmdline := filepath.Join("/proc", strings.TrimSpace(out), "cmdline")
	running := func() bool {
		line, err := os.ReadFile(cmdline)
		return err == nil && strings.HasPrefix(string(line), "sleep")
	}
	require.Eventually(t, running, time.Minute, 5*time.Millisecond, "sleep has started")
	s.closeShell()
	require.Eventually(t, func() bool { return !running() }, time.Minute, 5*time.Millisecond, "sleep is gone")
}

func TestACommandThatLooksIsRepeatedUntilItPrintsWhatIsShown(t *testing.T) {
	t.Parallel()
	s := openTestShell(t)
	file := filepath.Join(s.root, "log")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	// grep finds one line more each time that it is called.
	_, err := s.run(t.Context(), "grep() { echo ready >> log; command grep \"$@\"; }")
	require.NoError(t, err)
	out, err := s.observe(t.Context(), &exchange{command: "grep -c ready log\n", shown: "3\n"})
	require.NoError(t, err)
	assert.Equal(t, "3\n", out)

	for _, e := range []*exchange{
		{command: "grep -c ready log\n"},
		{command: "true && grep -c ready log\n", shown: "100\n"},
	} {
		before, err := os.ReadFile(file)
		require.NoError(t, err)
		_, err = s.observe(t.Context(), e)
		require.NoError(t, err)
		after, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Len(t, after, len(before)+len("ready\n"), "%q runs once", e.command)
	}
}

func TestSessionsThatListenOnAPortOfTheirChoiceDoNotMeet(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]bool{
		"kcm --secure-port 10404 &":          true,
		"curl https://127.0.0.1:10257/a":     true,
		"kcm --secure-port 0":                false,
		"kubectl get pods":                   false,
		"echo 127.0.0.1:$(cat port)/healthz": false,
	} {
		all, err := exchangesOf(chapterOf(t, 1, "```console\n$ "+command+"\n127.0.0.1:52\n```\n"))
		require.NoError(t, err)
		assert.Equal(t, want, listens(all), command)
	}
}

func TestOutputIsIndentedBelowItsCommand(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "    (nothing)", indent(""))
	assert.Equal(t, "    a\n    b", indent("a\nb\n"))
}
