package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/kcm-book/kcm-book/labs/controlplane/internal/directory"
)

// The line on standard input that makes the supervisor stay when that ends.
const detach = "detach\n"

func up(dir string, nodes int, attach bool) error {
	switch {
	case nodes < 1 || nodes > 1000:
		return fmt.Errorf("--nodes is %d: it must be between 1 and 1000", nodes)
	case attach:
		return upAttached(dir, nodes)
	}
	return upDetached(dir, nodes)
}

// upAttached is the supervisor. The cluster ends on SIGINT, SIGTERM, SIGHUP and the end of standard input.
func upAttached(dir string, nodes int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, end := context.WithCancel(ctx)
	defer end()
	// Who reads the output may go first; the cluster is then still to be ended in order.
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		if line, _ := bufio.NewReader(os.Stdin).ReadString('\n'); line != detach {
			end()
		}
	}()
	ready := false
	err := supervise(ctx, dir, nodes, func(c cluster) error {
		ready = true
		return json.NewEncoder(os.Stdout).Encode(c)
	})
	if ctx.Err() != nil && !ready {
		return exitError{errors.New("interrupted; nothing is left running"), exitInterrupted}
	}
	return err
}

// upDetached starts the supervisor in a session of its own, waits until the cluster is ready and leaves it running.
func upDetached(dir string, nodes int) error {
	begin := time.Now()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	self, err := os.Executable()
	cmd := exec.Command(self, "up", "--attach", "--dir", dir, "--nodes", fmt.Sprint(nodes))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, inErr := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	cmd.Stderr = cmd.Stdout
	if err := cmp.Or(err, inErr, outErr); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { stdin.Close() }) // ends the supervisor, unless it was told to stay

	said := bufio.NewReader(stdout)
	for {
		line, err := said.ReadString('\n')
		if err != nil { // it has ended, and said why
			_ = cmd.Wait()
			return exitError{nil, max(1, cmd.ProcessState.ExitCode())}
		}
		c := &directory.Cluster{}
		if json.Unmarshal([]byte(line), c) != nil {
			fmt.Fprint(os.Stderr, line)
			continue
		}
		if _, err := io.WriteString(stdin, detach); err != nil {
			continue
		}
		fmt.Printf(usage, time.Since(begin).Seconds(), c.Server, c.Kubeconfigs["admin"], os.Args[0], dir)
		return nil
	}
}

const usage = `labcluster: ready after %.1f s at %s

    export KUBECONFIG=%s

    %[4]s kubectl get nodes     # or your own
    %[4]s status --dir %[5]s                # the processes
    %[4]s kill|stop|cont|restart COMPONENT --dir %[5]s
    %[4]s down --dir %[5]s                  # ends it and removes its files

No controller manager runs. Pods need a ServiceAccount until one does.
`
