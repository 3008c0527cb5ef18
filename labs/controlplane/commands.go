package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// How long `down` waits for a supervisor to end everything.
const downTimeout = 20 * time.Second

// exitError ends labcluster with another code than 1.
type exitError struct {
	error
	code int
}

// exitIncomplete is the exit code of `status` when the cluster runs, but not all of its components. Package cluster knows it.
const exitIncomplete = 3

func (e exitError) Unwrap() error { return e.error }

func exitCode(err error) int {
	var exit exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	return 1
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
	c, err := openCluster(dir)
	if none := (errNoCluster{}); errors.As(err, &none) {
		fmt.Fprintf(out, "labcluster: no cluster in %s, nothing to do\n", none.dir)
		return nil
	}
	if err != nil {
		return err
	}
	_, err = c.ask(http.MethodPost, "/down")
	if dead := (errDead{}); errors.As(err, &dead) {
		return c.downDead(out)
	}
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(downTimeout); time.Now().Before(deadline); time.Sleep(pollInterval) {
		if running, err := isLocked(c.Dir); err != nil || !running {
			return c.reportDown(out)
		}
	}
	pid := c.Pids[supervisorName]
	return fmt.Errorf("the supervisor of the cluster in %s (pid %d) did not end within %v: end it with 'kill -9 %d' and try again", c.Dir, pid, downTimeout, pid)
}

// reportDown says what the supervisor has left: nothing, or files that somebody else put there.
func (c *cluster) reportDown(out io.Writer) error {
	names, err := fileNames(c.Dir)
	if err == nil && len(names) > 0 {
		return fmt.Errorf("the cluster has ended, but %s stays: it holds files that are not labcluster's: %s", c.Dir, strings.Join(names, ", "))
	}
	fmt.Fprintf(out, "labcluster: the cluster in %s is gone\n", c.Dir)
	return nil
}

// downDead removes a cluster whose supervisor is gone, and ends components that outlived it.
func (c *cluster) downDead(out io.Writer) error {
	lock, err := lockDir(c.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	for name, pid := range c.Pids {
		// The id may belong to somebody else's process by now.
		if name != supervisorName && c.isComponent(name, commandLine(pid)) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if err := c.remove(); err != nil {
		return err
	}
	fmt.Fprintf(out, "labcluster: the cluster in %s was not running any more; what was left of it is gone\n", c.Dir)
	return nil
}

// isComponent says whether a command line is that of a component of this cluster.
func (c *cluster) isComponent(name string, args []string) bool {
	if len(args) < 3 || filepath.Base(args[0]) != "labcluster" || args[1] != name {
		return false
	}
	return slices.ContainsFunc(args[2:], func(arg string) bool { return strings.Contains(arg, "="+c.Dir+"/") })
}

func newStatusCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the processes of the cluster; exit with 3 if one does not run",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return showStatus(*dir, cmd.OutOrStdout()) },
	}
}

func showStatus(dir string, out io.Writer) error {
	c, err := openCluster(dir)
	if err != nil {
		return err
	}
	statuses, err := c.ask(http.MethodGet, "/status")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s in %s\n\n", c.Server, c.Dir)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tPID\tMEMORY\tSTATE")
	var total int64
	var down []string
	for _, s := range statuses {
		fmt.Fprintf(table, "%s\t%d\t%d MB\t%s\n", s.Name, s.Pid, s.Memory/1_000_000, s.State)
		total += s.Memory
		if !s.Running {
			down = append(down, s.Name)
		}
	}
	fmt.Fprintf(table, "all\t\t%d MB\t\n", total/1_000_000)
	table.Flush()
	for _, s := range statuses {
		if len(s.Log) > 0 {
			fmt.Fprintf(out, "\nthe last words of %s (%s):\n    %s\n", s.Name, c.log(s.Name), strings.Join(s.Log, "\n    "))
		}
	}
	if len(down) > 0 {
		return exitError{fmt.Errorf("not running: %s: start it again with 'labcluster restart COMPONENT'", strings.Join(down, ", ")), exitIncomplete}
	}
	return nil
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
			c, err := openCluster(*dir)
			if err != nil {
				return err
			}
			_, err = c.ask(http.MethodPost, "/"+f.name+"/"+args[0])
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
