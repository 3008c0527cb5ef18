package main

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/kcm-book/kcm-book/labs/controlplane/internal/directory"
	"github.com/kcm-book/kcm-book/labs/controlplane/internal/supervised"
)

const (
	// How long the supervisor may take to answer, unless it restarts a component. It is quick, unless it is frozen itself.
	answerTimeout = 10 * time.Second
	// How long `down` waits for a supervisor to end everything.
	downTimeout = 20 * time.Second
)

// Control is what the supervisor does for other labcluster processes.
type Control struct{ s *supervisor }

// Do does what a command says, to one component unless the command is "status".
func (c Control) Do(command [2]string, statuses *[]supervised.Status) error {
	c.s.log.Printf("asked for %s", strings.Join(command[:], " "))
	name := command[1]
	switch command[0] {
	case "kill":
		return c.s.processes[name].Kill()
	case "stop":
		return c.s.processes[name].Signal(syscall.SIGSTOP)
	case "cont":
		return c.s.processes[name].Signal(syscall.SIGCONT)
	case "restart":
		return c.s.restart(name)
	}
	*statuses = []supervised.Status{{Name: directory.Supervisor, Pid: os.Getpid(), State: "running"}}
	for _, name := range componentNames {
		*statuses = append(*statuses, c.s.processes[name].Status())
	}
	return nil
}

// serve serves the commands of other labcluster processes until the listener is closed.
func (s *supervisor) serve(control net.Listener) {
	server := rpc.NewServer()
	_ = server.Register(Control{s})
	for {
		connection, err := control.Accept()
		if err != nil {
			return
		}
		go server.ServeConn(connection)
	}
}

// ask sends a command to the supervisor of the cluster in dir.
func ask(dir string, timeout time.Duration, command ...string) (c cluster, statuses []supervised.Status, err error) {
	if c.Cluster, err = directory.OpenRunning(dir); err != nil {
		return c, nil, err
	}
	if err := os.Chdir(c.Dir); err != nil {
		return c, nil, err
	}
	connection, err := net.Dial("unix", directory.ControlSocket)
	if err == nil {
		defer connection.Close()
		_ = connection.SetDeadline(time.Now().Add(timeout))
		err = rpc.NewClient(connection).Call("Control.Do", [2]string(append(command, "")), &statuses)
	}
	if err == nil || errors.As(err, new(rpc.ServerError)) {
		return c, statuses, err
	}
	if errors.Is(err, os.ErrNotExist) {
		return c, nil, errors.New("the cluster is still starting: wait until 'bin/labcluster up' returns")
	}
	pid := c.Pids[directory.Supervisor]
	return c, nil, fmt.Errorf("the supervisor of the cluster in %s (pid %d) does not answer (%w): "+
		"end it with 'kill -9 %[2]d', then 'bin/labcluster down --dir %[1]s'", c.Dir, pid, err)
}

// disturb does something to the one component that is named.
func disturb(dir, command string, names []string) error {
	all := strings.Join(componentNames, ", ")
	if len(names) != 1 {
		return fmt.Errorf("name one component to %s: %s", command, all)
	}
	if !slices.Contains(componentNames, names[0]) {
		return fmt.Errorf("no component %q: it is one of %s", names[0], all)
	}
	timeout := answerTimeout
	if command == "restart" {
		timeout += startTimeout
	}
	_, _, err := ask(dir, timeout, command, names[0])
	return err
}

func showStatus(dir string) error {
	c, statuses, err := ask(dir, answerTimeout, "status")
	if err != nil {
		return err
	}
	fmt.Printf("%s in %s\n\n", c.Server, c.Dir)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tPID\tSTATE")
	for _, s := range statuses {
		fmt.Fprintf(table, "%s\t%d\t%s\n", s.Name, s.Pid, s.State)
	}
	table.Flush()
	var cures []string
	for _, s := range statuses {
		if s.Cure == "" {
			continue
		}
		cures = append(cures, fmt.Sprintf("'bin/labcluster %s %s --dir %s'", s.Cure, s.Name, c.Dir))
		if len(s.Log) > 0 {
			fmt.Printf("\nthe last words of %s (%s):\n    %s\n", s.Name, c.Log(s.Name), strings.Join(s.Log, "\n    "))
		}
	}
	if len(cures) > 0 {
		return exitError{errors.New("not all of it runs: try " + strings.Join(cures, ", ")), exitIncomplete}
	}
	return nil
}

// down ends the cluster in dir, or what is left of one.
func down(dir string) error {
	c, err := directory.OpenRunning(dir)
	switch {
	case errors.Is(err, directory.ErrNone):
		fmt.Printf("labcluster: no cluster in %s, nothing to do\n", dir)
		return nil
	case errors.Is(err, directory.ErrDead):
		lock, err := directory.LockDir(c.Dir)
		if err != nil {
			return err
		}
		defer lock.Close()
		if err := c.Remove(); err != nil {
			return err
		}
		fmt.Printf("labcluster: the cluster in %s was not running any more; what was left of it is gone\n", c.Dir)
		return nil
	case err != nil:
		return err
	}
	// It holds the lock, so the process is the supervisor.
	pid := c.Pids[directory.Supervisor]
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("end the supervisor of the cluster in %s (pid %d): %w", c.Dir, pid, err)
	}
	for deadline := time.Now().Add(downTimeout); time.Now().Before(deadline); time.Sleep(pollInterval) {
		if !c.Running() {
			if err := c.CheckGone(); err != nil {
				return err
			}
			fmt.Printf("labcluster: the cluster in %s is gone\n", c.Dir)
			return nil
		}
	}
	return fmt.Errorf("the supervisor of the cluster in %s (pid %d) did not end within %v: "+
		"end it with 'kill -9 %[2]d' and try again", c.Dir, pid, downTimeout)
}
