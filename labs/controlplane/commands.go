package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kcm-book/kcm-book/labs/controlplane/internal/directory"
	"github.com/kcm-book/kcm-book/labs/controlplane/internal/supervised"
)

// How long `down` waits for a supervisor to end everything.
const downTimeout = 20 * time.Second

// exitError ends labcluster with another code than 1.
type exitError struct {
	error
	code int
}

// Exit codes other than 1.
const (
	exitIncomplete = 3 // the cluster runs, but not all of its components, or files are missing
	exitNotRunning = 4 // no cluster runs in the directory; other commands end with it too
)

func (e exitError) Unwrap() error { return e.error }

func exitCode(err error) int {
	var exit exitError
	switch {
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, new(directory.NoClusterError)), errors.As(err, new(errDead)):
		return exitNotRunning
	default:
		return 1
	}
}

func newDownCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the cluster and remove its files",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return down(*dir, cmd.OutOrStdout()) },
	}
}

// down ends the cluster in dir, or what is left of one.
func down(dir string, out io.Writer) error {
	c, err := openRunning(dir)
	if none := (directory.NoClusterError{}); errors.As(err, &none) {
		fmt.Fprintf(out, "labcluster: no cluster in %s, nothing to do\n", none.Dir)
		return nil
	}
	if dead := (errDead{}); errors.As(err, &dead) {
		return c.downDead(out)
	}
	if err != nil {
		return err
	}
	if _, err := c.ask(http.MethodPost, "/down", answerTimeout); err != nil {
		return err
	}
	for deadline := time.Now().Add(downTimeout); time.Now().Before(deadline); time.Sleep(pollInterval) {
		if running, err := directory.IsLocked(c.Dir); err != nil || !running {
			if err := c.CheckGone(); err != nil {
				return err
			}
			fmt.Fprintf(out, "labcluster: the cluster in %s is gone\n", c.Dir)
			return nil
		}
	}
	pid := c.Pids[supervisorName]
	return fmt.Errorf("the supervisor of the cluster in %s (pid %d) did not end within %v: end it with 'kill -9 %d' and try again", c.Dir, pid, downTimeout, pid)
}

// downDead removes a cluster whose supervisor is gone, and ends components that outlived it.
func (c cluster) downDead(out io.Writer) error {
	lock, err := directory.LockDir(c.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	for name, pid := range c.Pids {
		// The id may belong to somebody else's process by now.
		if name != supervisorName && supervised.Belongs(supervised.CommandLine(pid), name, c.Dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if err := c.Remove(); err != nil {
		return err
	}
	fmt.Fprintf(out, "labcluster: the cluster in %s was not running any more; what was left of it is gone\n", c.Dir)
	return nil
}

func newStatusCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the processes of the cluster; exit with 3 if one does not run, with 4 if none does",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return showStatus(*dir, cmd.OutOrStdout()) },
	}
}

func showStatus(dir string, out io.Writer) error {
	c, err := openRunning(dir)
	if err != nil {
		return err
	}
	statuses, err := c.ask(http.MethodGet, "/status", answerTimeout)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s in %s\n\n", c.Server, c.Dir)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tPID\tMEMORY\tSTATE")
	var total int64
	for _, s := range statuses {
		fmt.Fprintf(table, "%s\t%d\t%d MB\t%s\n", s.Name, s.Pid, s.Memory/1_000_000, s.State)
		total += s.Memory
	}
	fmt.Fprintf(table, "all\t\t%d MB\t\n", total/1_000_000)
	table.Flush()
	for _, s := range statuses {
		if len(s.Log) > 0 {
			fmt.Fprintf(out, "\nthe last words of %s (%s):\n    %s\n", s.Name, c.Log(s.Name), strings.Join(s.Log, "\n    "))
		}
	}
	return c.incomplete(statuses)
}

// incomplete returns an error that says what to do if not all of the cluster is there and runs.
func (c cluster) incomplete(statuses []supervised.Status) error {
	if err := c.Check(); err != nil {
		return exitError{err, exitIncomplete}
	}
	var advice []string
	for _, s := range statuses {
		switch {
		case s.Frozen:
			advice = append(advice, fmt.Sprintf("%s is frozen: let it go on with 'bin/labcluster cont %s --dir %s'", s.Name, s.Name, c.Dir))
		case !s.Running:
			advice = append(advice, fmt.Sprintf("%s does not run: start it again with 'bin/labcluster restart %s --dir %s'", s.Name, s.Name, c.Dir))
		}
	}
	if len(advice) == 0 {
		return nil
	}
	return exitError{errors.New(strings.Join(advice, "; ")), exitIncomplete}
}

func newFaultCommand(dir *string, f fault) *cobra.Command {
	return &cobra.Command{
		Use:       f.name + " COMPONENT",
		Short:     f.help,
		ValidArgs: componentNames,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name one component to %s: %s", f.name, strings.Join(componentNames, ", "))
			}
			if err := checkComponent(args[0]); err != nil {
				return err
			}
			c, err := openRunning(*dir)
			if err != nil {
				return err
			}
			_, err = c.ask(http.MethodPost, "/"+f.name+"/"+args[0], f.timeout)
			return err
		},
	}
}

// rememberedDir returns dir in a form that fits a shell command typed where labcluster was called.
func rememberedDir(dir string) string {
	if working, err := os.Getwd(); err == nil {
		if relative, err := filepath.Rel(working, dir); err == nil && !strings.HasPrefix(relative, "..") {
			return relative
		}
	}
	return dir
}
