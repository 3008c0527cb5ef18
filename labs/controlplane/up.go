package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kcm-book/kcm-book/labs/controlplane/internal/directory"
	"github.com/kcm-book/kcm-book/labs/controlplane/internal/supervised"
)

// The word on standard input that makes the supervisor stay when that ends.
const detachWord = "detach"

// exitInterrupted is what a shell expects of a program that Ctrl-C has ended.
const exitInterrupted = 130

func newUpCommand(dir *string) *cobra.Command {
	nodes, attach := 3, false
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster and return when pods can be scheduled",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case nodes < 1 || nodes > 1000:
				return fmt.Errorf("--nodes is %d: it must be between 1 and 1000", nodes)
			case attach:
				return upAttached(*dir, nodes)
			default:
				return upDetached(*dir, nodes)
			}
		},
	}
	cmd.Flags().IntVar(&nodes, "nodes", nodes, "number of nodes")
	cmd.Flags().BoolVar(&attach, "attach", attach, "stay in the foreground, print the cluster's state as a line of JSON when it is ready, and end the cluster when standard input ends")
	return cmd
}

// upAttached is the supervisor. The cluster ends on SIGINT, SIGTERM, SIGHUP and the end of standard input.
func upAttached(dir string, nodes int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Who reads the output may go first; the cluster is then still to be ended in order.
	signal.Ignore(syscall.SIGPIPE)
	detached := make(chan struct{})
	ready := make(chan struct{})
	go followStdin(cancel, detached)

	err := supervise(ctx, dir, nodes, os.Stderr, func(c cluster) error {
		defer close(ready)
		if err := json.NewEncoder(os.Stdout).Encode(c); err != nil {
			return err
		}
		go func() {
			<-detached
			detachOutput(c)
		}()
		return nil
	})
	if ctx.Err() != nil && !isClosed(ready) {
		return exitError{errors.New("interrupted; nothing is left running"), exitInterrupted}
	}
	return err
}

// followStdin ends the cluster when standard input ends, unless it was told to stay.
func followStdin(end func(), detached chan<- struct{}) {
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if strings.TrimSpace(line) == detachWord {
		close(detached)
		return
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	end()
}

// detachOutput sends what this process may still print, such as a panic, to its log.
func detachOutput(c cluster) {
	log, err := os.OpenFile(c.Log(supervisorName), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return // the directory is gone, and the supervisor will soon be too
	}
	defer log.Close()
	_ = supervised.Redirect(log, 1)
	_ = supervised.Redirect(log, 2)
}

// upDetached starts the supervisor in a session of its own, waits until the cluster is ready and leaves it running.
func upDetached(dir string, nodes int) error {
	begin := time.Now()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "up", "--attach", "--dir", dir, "--nodes", fmt.Sprint(nodes))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = os.Stderr
	stdin, stdout, err := startPiped(cmd)
	if err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		stdin.Close() // ends the supervisor, unless it was told to stay
	}()

	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil || ctx.Err() != nil {
		stdin.Close()
		_ = cmd.Wait()
		return exitError{errSilent, max(1, cmd.ProcessState.ExitCode())}
	}
	c := &directory.Cluster{}
	if err := json.Unmarshal(line, c); err != nil {
		return fmt.Errorf("the supervisor's answer: %w", err)
	}
	if _, err := fmt.Fprintln(stdin, detachWord); err != nil {
		return fmt.Errorf("the supervisor ended: see what it says in %s", c.Log(supervisorName))
	}
	fmt.Printf(usage, time.Since(begin).Seconds(), c.Server, c.Kubeconfigs["admin"], os.Args[0], rememberedDir(c.Dir))
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// errSilent is for an error that the supervisor has already told the user.
var errSilent = errors.New("")

func startPiped(cmd *exec.Cmd) (stdin io.WriteCloser, stdout io.Reader, err error) {
	if stdin, err = cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	if stdout, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, err
	}
	return stdin, stdout, cmd.Start()
}

const usage = `labcluster: ready after %.1f s at %s

    export KUBECONFIG=%s

    %[4]s kubectl --dir %[5]s get nodes     # or your own kubectl
    %[4]s status --dir %[5]s                # the processes
    %[4]s kill|stop|cont|restart COMPONENT --dir %[5]s
    %[4]s down --dir %[5]s                  # ends it and removes its files

No controller manager runs. Pods need a ServiceAccount until one does.
`
