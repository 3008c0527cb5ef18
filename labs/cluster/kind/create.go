package kind

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	kind "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	kindexec "sigs.k8s.io/kind/pkg/exec"
	kindlog "sigs.k8s.io/kind/pkg/log"

	"github.com/kcm-book/kcm-book/labs/process"
)

// create has kind create the cluster.
func (c *Cluster) create(ctx context.Context) error {
	created := make(chan error, 1)
	go func() {
		created <- c.engine.provider.Create(c.name,
			kind.CreateWithV1Alpha4Config(config(c.name, nodeImage(), filepath.Join(c.Files.Dir, sharedName))),
			// Not the one that the user has.
			kind.CreateWithKubeconfigPath(c.Files.Kubeconfigs[admin]),
			// Its log is wanted if it fails.
			kind.CreateWithRetain(true),
		)
	}()
	select {
	case err := <-created:
		var findErr error
		if c.node, findErr = c.engine.findNode(c.name); err == nil {
			err = findErr
		}
		return c.withLog(ctx, err)
	case <-ctx.Done():
		return c.interrupt(created)
	}
}

// interrupt ends a creation. Kind takes no context, but it fails when its node is gone.
func (c *Cluster) interrupt(created <-chan error) error {
	for {
		if err := c.engine.remove(c.name); err != nil {
			return err
		}
		select {
		case err := <-created:
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// remove removes the named cluster, if there is one, and none of its files.
func (e engine) remove(name string) error {
	// Kind takes the cluster out of a kubeconfig, too: an empty one, because ours are removed anyway.
	scratch, err := os.MkdirTemp("", "kind-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := e.provider.Delete(name, filepath.Join(scratch, "kubeconfig")); err != nil {
		return fmt.Errorf("remove kind cluster %s: %w", name, saidBy(err))
	}
	return nil
}

// findNode finds the node of the named cluster.
func (e engine) findNode(name string) (nodes.Node, error) {
	found, err := e.provider.ListNodes(name)
	if err != nil {
		return nil, fmt.Errorf("look for the node of kind cluster %s: %w", name, saidBy(err))
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: kind cluster %s has no node", ErrNotRunning, name)
	}
	return found[0], nil
}

// inNode runs a command in the node and returns what it prints. Errors have the last line of what it says.
func (c *Cluster) inNode(ctx context.Context, command string, args ...string) (string, error) {
	var stdout, stderr strings.Builder
	err := c.node.CommandContext(ctx, command, args...).SetStdout(&stdout).SetStderr(&stderr).Run()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("run %s in node %s: %s", command, c.node, cmp.Or(process.LastLines(stderr.String(), 1), err.Error()))
	}
	return stdout.String(), nil
}

// errorLine is a line in which Docker or kubeadm says why it fails. More may follow: advice, or where in its source.
var errorLine = regexp.MustCompile(`(?mi)^(\w+: )?error\b.*`)

// saidBy returns an error with the line in which the failed command says why, instead of the whole command.
func saidBy(err error) error {
	if run := (*kindexec.RunError)(nil); errors.As(err, &run) {
		said := string(run.Output)
		return errors.New(cmp.Or(errorLine.FindString(said), process.LastLines(said, 1), run.Error()))
	}
	return err
}

// withLog keeps the log of a node that does not come up, and says where it is.
func (c *Cluster) withLog(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	file, fileErr := os.CreateTemp("", c.name+"-*.log")
	if fileErr != nil {
		return errors.Join(err, fileErr)
	}
	defer file.Close()
	c.writeLog(ctx, file)
	return fmt.Errorf("the node of the kind cluster does not come up: %w: see %s, and try %s if it is the image's fault", saidBy(err), file.Name(), imageVariable)
}

// writeLog writes all that may say why a node does not come up. What cannot be had is left out.
func (c *Cluster) writeLog(ctx context.Context, w io.Writer) {
	io.WriteString(w, c.engine.log.String())
	if c.node == nil {
		return
	}
	fmt.Fprintf(w, "\n--- the node says\n")
	c.node.SerialLogs(w)
	fmt.Fprintf(w, "\n--- its kubelet says\n")
	c.node.CommandContext(ctx, "journalctl", "--no-pager", "--lines=200", "--unit=kubelet").SetStdout(w).SetStderr(w).Run()
}

// kindLog keeps all that kind logs.
type kindLog struct {
	mu   sync.Mutex
	text strings.Builder
}

var _ kindlog.Logger = (*kindLog)(nil)

func (l *kindLog) Info(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(message + "\n")
}

func (l *kindLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *kindLog) Infof(format string, args ...any)  { l.Info(fmt.Sprintf(format, args...)) }
func (l *kindLog) Warn(message string)               { l.Info(message) }
func (l *kindLog) Warnf(format string, args ...any)  { l.Infof(format, args...) }
func (l *kindLog) Error(message string)              { l.Info(message) }
func (l *kindLog) Errorf(format string, args ...any) { l.Infof(format, args...) }
func (l *kindLog) Enabled() bool                     { return true }
func (l *kindLog) V(kindlog.Level) kindlog.InfoLogger {
	return l
}
