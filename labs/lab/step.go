package lab

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

const (
	// patience is how long a step waits for one thing.
	patience = 40 * time.Second
	// kindPatience is the same on kind, where containers have to start and stop.
	kindPatience = 2 * time.Minute
	// look is how often it looks.
	look = 50 * time.Millisecond
)

// Step is a step of a lab while it runs.
type Step struct {
	*testing.T
	lab     *Lab
	skipped string
}

// Context ends when the lab is interrupted.
func (s *Step) Context() context.Context { return s.lab.ctx }

// OnlyKCM skips the step where the original runs. The reason says why it can
// hold for kcm alone.
func (s *Step) OnlyKCM(reason string) {
	if Reference() {
		s.skip("only kcm: " + reason)
	}
}

// OnlyEmbedded skips the step on kind.
func (s *Step) OnlyEmbedded(reason string) {
	if cluster.OnKind() {
		s.skip("not on kind: " + reason)
	}
}

func (s *Step) skip(reason string) {
	s.skipped = reason
	s.Skip(reason)
}

// Say tells the reader something.
func (s *Step) Say(format string, args ...any) { s.lab.narrator.say(format, args...) }

// Kubectl runs kubectl as the admin, shows the command and what it prints, and
// returns that. Paths are relative to the lab's directory. The arguments are
// separated by spaces; what contains some is put between single quotes.
func (s *Step) Kubectl(arguments string) string {
	s.Helper()
	out, err := s.kubectl(arguments)
	require.NoError(s, err, "kubectl %s:\n%s", arguments, out)
	return out
}

// KubectlFails runs a kubectl that is to be refused, and returns what it prints.
func (s *Step) KubectlFails(arguments string) string {
	s.Helper()
	out, err := s.kubectl(arguments)
	var exit *exec.ExitError
	require.ErrorAs(s, err, &exit, "kubectl %s was to fail, and printed:\n%s", arguments, out)
	return out
}

func (s *Step) kubectl(arguments string) (string, error) {
	s.Say("$ kubectl %s", arguments)
	args := append([]string{"kubectl", "--kubeconfig", s.lab.Cluster.Kubeconfig(cluster.Admin)}, words(arguments)...)
	out, err := exec.CommandContext(s.lab.ctx, filepath.Join(s.lab.root, "bin", "labcluster"), args...).CombinedOutput()
	s.Say("%s", out)
	return string(out), err
}

// Namespace creates a namespace and waits until pods can be created in it.
func (s *Step) Namespace(name string) {
	s.Helper()
	s.Kubectl("create namespace " + name)
	s.Await("the namespace has its ServiceAccount", func(ctx context.Context) (bool, string, error) {
		_, err := s.lab.Client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, "it is there", err
	})
}

// words cuts a command line at its spaces, but for those between single quotes.
func words(line string) []string {
	var all []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// Await waits until done is. It shows what done sees in the meantime, and fails
// with what it has seen last. An error of done counts as something seen.
func (s *Step) Await(what string, done func(ctx context.Context) (ok bool, seen string, err error)) {
	s.Helper()
	begin := time.Now()
	var seen string
	limit := patience
	if cluster.OnKind() {
		limit = kindPatience
	}
	err := wait.PollUntilContextTimeout(s.lab.ctx, look, limit, true, func(ctx context.Context) (bool, error) {
		ok, now, err := done(ctx)
		if err != nil {
			ok, now = false, err.Error()
		}
		seen = now
		s.lab.narrator.progress("waiting until %s: %s (%.0f s)", what, seen, time.Since(begin).Seconds())
		return ok, nil
	})
	switch {
	case err == nil:
		s.Say("%s (%.1f s)", what, time.Since(begin).Seconds())
	case s.lab.ctx.Err() != nil:
		s.Say("interrupted while waiting until %s; last seen: %s", what, seen)
		s.FailNow()
	default:
		require.Fail(s, "waited in vain", "%s: not after %s; last seen: %s%s", what, limit, seen, s.lab.lastWords())
	}
}

// lastWords are the ends of the logs of all managers.
func (l *Lab) lastWords() string {
	var words strings.Builder
	for _, p := range l.processes {
		fmt.Fprintf(&words, "\nthe log of %s ends:\n%s", p.Name, p.tail(10))
	}
	return words.String()
}
