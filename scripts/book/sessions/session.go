package sessions

import (
	"bufio"
	"cmp"
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

	"al.essio.dev/pkg/shellescape"
	"k8s.io/apimachinery/pkg/util/rand"
)

const (
	// timeout is how long one command of a chapter may take: it may compile kcm.
	timeout = 10 * time.Minute
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
	stdin, inErr := s.shell.StdinPipe()
	output, outErr := s.shell.StdoutPipe()
	s.stdin = stdin
	if err := cmp.Or(inErr, outErr, s.shell.Start()); err != nil {
		return nil, fmt.Errorf("start bash: %w", err)
	}
	go func() {
		defer close(s.lines)
		for printed := bufio.NewReader(output); ; {
			line, err := printed.ReadString('\n')
			if line != "" {
				s.lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	_, err := io.WriteString(s.stdin, "set -m; exec 2>&1\n")
	return s, err
}

// run types a command and returns what it has printed when it is done.
func (s *session) run(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("is not done after %s", timeout))
	defer cancel()
	// $? stays what the command has left there.
	_, err := fmt.Fprintf(s.stdin, "eval %s </dev/null\n__status=$?; printf '\\n%s\\n'; (exit $__status)\n",
		shellescape.Quote(command), s.mark)
	if err != nil {
		return "", fmt.Errorf("the shell has ended: %w", err)
	}
	var out strings.Builder
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				return out.String(), errors.New("the shell has ended")
			}
			if strings.TrimSuffix(line, "\n") == s.mark {
				return s.tidy(out.String()), nil
			}
			out.WriteString(line)
		case <-ctx.Done():
			return out.String(), context.Cause(ctx)
		}
	}
}

// jobEnded is what only a shell without a terminal says when a signal ends a job, lineOf what stands before its errors.
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
	program, lab := filepath.Join(s.root, "bin", "labcluster"), filepath.Join(s.root, s.lab)
	out, err := exec.Command(program, "down", "--dir", lab).CombinedOutput()
	if err != nil {
		return fmt.Errorf("end the lab cluster: %w\n%s", err, out)
	}
	return nil
}

// closeShell ends all processes of the session that the shell has opened: with job control each has a process group of
// its own.
func (s *session) closeShell() {
	s.stdin.Close()
	_ = exec.Command("pkill", "-KILL", "--session", fmt.Sprint(s.shell.Process.Pid)).Run() // they may have ended
	go func() {
		for range s.lines { // until the pipe is closed
		}
	}()
	_ = s.shell.Wait()
}
