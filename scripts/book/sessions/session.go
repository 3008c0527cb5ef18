package sessions

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
)

const (
	// commandTimeout is how long one command of a chapter may take.
	commandTimeout = 90 * time.Second
	// setupTimeout is how long one may take that sets up what a chapter needs: it may compile kcm.
	setupTimeout = 10 * time.Minute
	// labDirectory is where the sessions have their clusters, relative to the root. A reader has it in .labcluster.
	labDirectory = ".labcluster-transcripts"
)

// session is a shell in which a reader of a chapter would type.
type session struct {
	shell *exec.Cmd
	stdin io.WriteCloser
	lines chan string
	mark  string
	root  string
	lab   string // relative to the root
}

// openSession starts a shell in the root. Its cluster, once somebody types make cluster, has its files in lab.
func openSession(root, lab string) (*session, error) {
	s := &session{root: root, lab: lab, mark: "end-of-output-" + rand.String(16), lines: make(chan string)}
	s.shell = exec.Command("bash", "--norc", "--noprofile")
	s.shell.Dir = s.root
	s.shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// To a make of the shell's, this is no part of the make that has started us.
	s.shell.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "CLUSTER=")
	})
	s.shell.Env = append(s.shell.Env, "LABCLUSTER_DIR="+lab, "COLUMNS=100")
	var err error
	if s.stdin, err = s.shell.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := s.shell.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.shell.Start(); err != nil {
		return nil, fmt.Errorf("start bash: %w", err)
	}
	go s.read(output)
	_, err = io.WriteString(s.stdin, "set -m; exec 2>&1\n")
	return s, err
}

// read hands on what the shell prints, line by line.
func (s *session) read(output io.Reader) {
	defer close(s.lines)
	reader := bufio.NewReader(output)
	for {
		line, err := reader.ReadString('\n')
		if line != "" {
			s.lines <- line
		}
		if err != nil {
			return
		}
	}
}

// run types a command and returns what it has printed when it is done.
func (s *session) run(ctx context.Context, command string) (string, error) {
	return s.runFor(ctx, command, commandTimeout)
}

// setUp types a command that has to succeed, and whose output is of no interest.
func (s *session) setUp(ctx context.Context, command string) error {
	const failed = "exit code of setup: "
	out, err := s.runFor(ctx, command+` || echo "`+failed+`$?"`, setupTimeout)
	if err == nil && strings.Contains(out, failed) {
		err = errors.New("has failed")
	}
	if err != nil {
		return fmt.Errorf("%w; it has printed:\n%s", err, out)
	}
	return nil
}

func (s *session) runFor(ctx context.Context, command string, limit time.Duration) (string, error) {
	// $? stays what the command has left there.
	_, err := fmt.Fprintf(s.stdin, "eval %s </dev/null\n__status=$?; printf '\\n%s\\n'; (exit $__status)\n", quote(command), s.mark)
	if err != nil {
		return "", fmt.Errorf("the shell has ended: %w", err)
	}
	var out strings.Builder
	timeout := time.After(limit)
	for {
		select {
		case line, ok := <-s.lines:
			switch {
			case !ok:
				return out.String(), fmt.Errorf("the shell has ended")
			case strings.TrimSuffix(line, "\n") == s.mark:
				return s.tidy(out.String()), nil
			}
			out.WriteString(line)
		case <-timeout:
			return out.String(), fmt.Errorf("is not done after %s", limit)
		case <-ctx.Done():
			return out.String(), ctx.Err()
		}
	}
}

// jobEnded is what only a shell without a terminal says when a signal ends a job, lineOf what it puts before its errors.
var (
	jobEnded = regexp.MustCompile(`^bash: line \d+: +\d+ `)
	lineOf   = regexp.MustCompile(`^bash: line \d+: `)
)

// tidy replaces what tells where this ran with what a reader sees, and drops what only a shell without a terminal says.
func (s *session) tidy(out string) string {
	out = strings.TrimSuffix(out, "\n") // the one that comes before the mark
	out = strings.ReplaceAll(out, s.root+"/", "")
	out = strings.ReplaceAll(out, s.lab, ".labcluster")
	var kept []string
	for line := range strings.Lines(out) {
		if !jobEnded.MatchString(line) {
			line = lineOf.ReplaceAllString(line, "bash: ")
			kept = append(kept, strings.TrimRight(line, " \n")+"\n")
		}
	}
	return strings.Join(kept, "")
}

// close ends the shell, all that it has started, and the cluster.
func (s *session) close() error {
	s.closeShell()
	out, err := exec.Command(filepath.Join(s.root, "bin", "labcluster"), "down", "--dir", filepath.Join(s.root, s.lab)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("end the lab cluster: %w\n%s", err, out)
	}
	return nil
}

// closeShell ends all processes of the session that the shell has opened: with job control each has a process group of its
// own.
func (s *session) closeShell() {
	s.stdin.Close()
	_ = exec.Command("pkill", "-KILL", "--session", fmt.Sprint(s.shell.Process.Pid)).Run() // they may have ended
	go func() {
		for range s.lines { // until the pipe is closed
		}
	}()
	_ = s.shell.Wait()
}

func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
