package play

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
)

func (p *Play) kubectl(c *call) error {
	p.Narrator.Say("$ kubectl " + shellescape.QuoteCommand(p.ownNamespace(c.args)))
	said, err := p.runKubectl(c)
	p.Narrator.Say(said)
	return c.answered(err)
}

// answered is an error if kubectl has failed, or with a ! before the verb if it has not.
func (c *call) answered(err error) error {
	switch refused := (*exec.ExitError)(nil); {
	case err == nil && c.not:
		return errors.New("kubectl has succeeded")
	case c.not && errors.As(err, &refused):
		return nil
	}
	return err
}

// retry runs kubectl until it is answered as it should be. What an API server admits, it reads from caches that follow
// after a moment.
func (p *Play) retry(c *call) error {
	what := map[bool]string{false: " succeeds", true: " fails"}[c.not]
	return p.poll(spell("kubectl", false, c.args)+what, func(history.State) (bool, error) {
		_, err := p.runKubectl(c)
		err = c.answered(err)
		return err == nil, err
	})
}

// ownNamespace adds the namespace in which the script looks to the arguments of kubectl.
func (p *Play) ownNamespace(args []string) []string {
	names := func(arg string) bool {
		return arg == "-n" || arg == "-A" || arg == "--all-namespaces" || strings.HasPrefix(arg, "--namespace")
	}
	if p.namespace == "" || p.namespace == metav1.NamespaceDefault || slices.ContainsFunc(args, names) {
		return args
	}
	return append(args[:len(args):len(args)], "-n", p.namespace)
}

func (p *Play) runKubectl(c *call) (string, error) {
	binary, err := cluster.Binary(p.ctx, "labcluster", c.Stderr())
	if err != nil {
		return "", err
	}
	args := append([]string{"kubectl", "--kubeconfig=" + p.Cluster.Kubeconfigs[cluster.Admin]}, p.ownNamespace(c.args)...)
	said, err := p.runToEnd(c, func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, binary, args...) })
	if err != nil {
		err = fmt.Errorf("kubectl: %w: %s", err, said)
	}
	return said, err
}

// runToEnd runs a program until it ends by itself, returns all that it has printed, and leaves it for stdout and
// stderr.
func (p *Play) runToEnd(c *call, command func(context.Context) *exec.Cmd) (string, error) {
	ctx, cancel := context.WithTimeout(p.ctx, p.Patience)
	defer cancel()
	cmd := command(ctx)
	cmd.Dir = p.Dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	fmt.Fprint(c.Stdout(), stdout.String())
	fmt.Fprint(c.Stderr(), stderr.String())
	if ctx.Err() != nil {
		err = fmt.Errorf("it has not ended by itself in %v", p.Patience)
	}
	return stdout.String() + stderr.String(), err
}
