package supervised

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain makes the test binary the components too: a Process runs its own binary under another name.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == Attached {
		switch os.Args[2] {
		case "sleeper":
			fmt.Println("sleeping")
			time.Sleep(time.Minute)
			os.Exit(0)
		case "crasher":
			fmt.Println("no disk")
			os.Exit(7)
		}
	}
	graceTime = time.Minute // a busy machine may take long to let a process end
	os.Exit(m.Run())
}

// newProcess returns a process and a channel that gets each end that nobody asked for.
func newProcess(t *testing.T, name string) (p *Process, start func() error, crashes chan error) {
	t.Helper()
	crashes = make(chan error, 10)
	p = &Process{Name: name, Log: filepath.Join(t.TempDir(), "log")}
	t.Cleanup(p.Stop)
	return p, func() error { return p.Start(func(err error) { crashes <- err }) }, crashes
}

// receive returns what comes next, and fails the test if nothing comes.
func receive(t *testing.T, from <-chan error) error {
	t.Helper()
	select {
	case err := <-from:
		return err
	case <-time.After(time.Minute):
		t.Fatal("nothing was reported")
		return nil
	}
}

func TestAProcessThatWasNeverStartedIsNotRunning(t *testing.T) {
	t.Parallel()
	p, _, _ := newProcess(t, "sleeper")
	require.Equal(t, Status{Name: "sleeper", State: "not started", Cure: "restart"}, p.Status())
	require.ErrorContains(t, p.Kill(), "sleeper does not run: start it with 'bin/labcluster restart sleeper'")
}

func TestACrashIsReportedWithTheLastWords(t *testing.T) {
	t.Parallel()
	p, start, crashes := newProcess(t, "crasher")
	require.NoError(t, start())
	require.EqualError(t, receive(t, crashes), "crasher exited with code 7; its last words:\n    no disk")
	status := p.Status()
	require.Equal(t, "exited with code 7", status.State)
	require.Equal(t, "restart", status.Cure)
	require.Equal(t, []string{"no disk"}, status.Log)
}

func TestAnEndThatWasAskedForIsNoCrash(t *testing.T) {
	t.Parallel()
	p, start, crashes := newProcess(t, "sleeper")
	require.NoError(t, start())
	require.NoError(t, p.Kill())
	require.Equal(t, "was ended by signal 9 (killed) as asked", p.Status().State)
	require.NoError(t, start())
	p.Stop()
	require.Equal(t, "was ended by signal 15 (terminated) as asked", p.Status().State)
	require.Empty(t, crashes)
}

func TestARestartRightAfterACrashReportsTheCrash(t *testing.T) {
	t.Parallel()
	p, start, _ := newProcess(t, "sleeper")
	reports := make(chan error, 1)
	// The report is made out when another run has already begun.
	require.NoError(t, p.Start(func(err error) { reports <- errors.Join(err, start()) }))
	first := p.Status().Pid
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	require.ErrorContains(t, receive(t, reports), "sleeper was ended by signal 9 (killed)")
	require.NotEqual(t, first, p.Status().Pid)
	require.Equal(t, "running", p.Status().State)
}

func TestOneMayLookWhileAnotherRestarts(t *testing.T) {
	t.Parallel()
	p, start, crashes := newProcess(t, "crasher")
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		for range 200 {
			p.Status()
		}
	}()
	for range 5 {
		require.NoError(t, start())
		require.ErrorContains(t, receive(t, crashes), "crasher exited with code 7")
	}
	<-looked
}

func TestAFrozenProcessCanGoOnAndCanBeStopped(t *testing.T) {
	t.Parallel()
	p, start, crashes := newProcess(t, "sleeper")
	require.NoError(t, start())
	require.NoError(t, p.Signal(syscall.SIGSTOP))
	require.Equal(t, "stopped (SIGSTOP)", p.Status().State)
	require.Equal(t, "cont", p.Status().Cure)
	require.NoError(t, p.Signal(syscall.SIGCONT))
	require.Equal(t, "running", p.Status().State)
	require.NoError(t, p.Signal(syscall.SIGSTOP))
	p.Stop()
	require.Equal(t, "was ended by signal 15 (terminated) as asked", p.Status().State)
	require.Empty(t, crashes)
}

func TestTheTailSaysWhy(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, log string
		from      int64
		want      []string
	}{
		{"nothing was written", "", 0, nil},
		{"nothing since", "one\n", 4, nil},
		{"few lines", "one\ntwo\n", 0, []string{"one", "two"}},
		{"only this run's", "one\ntwo\n", 4, []string{"two"}},
		{"the last five", "1\n2\n3\n4\n5\n6\n7\n", 0, []string{"3", "4", "5", "6", "7"}},
		{"a panic, not its traces", "start\npanic: oh\n\ngoroutine 1\nmain.main()\n\tmain.go:1\nmore\nyet more\n", 0,
			[]string{"panic: oh", "", "goroutine 1", "main.main()", "\tmain.go:1"}},
		{"a signal at the end", "start\nSIGABRT: abort\nPC=0x1\n", 0, []string{"SIGABRT: abort", "PC=0x1"}},
		{"a long log", strings.Repeat("x", 3<<20) + "\nlast\n", 0, []string{"last"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			require.NoError(t, os.WriteFile(path, []byte(c.log), 0o600))
			got := tail(path, c.from)
			if c.name == "a long log" {
				got = got[1:] // what is kept of the long line
			}
			require.Equal(t, c.want, got)
		})
	}
	require.Nil(t, tail(filepath.Join(t.TempDir(), "none"), 0))
}
