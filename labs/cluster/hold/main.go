// Command hold runs a component of the control plane of a kind cluster. The kubelet would start a component again that was
// killed. While there is a file named after the component in /lab/held, hold does not end when its component does, so that
// the kubelet has nothing to do; when the file is removed, it starts the component again. Without the file, it ends as its
// component does.
//
// It goes by its component's name, in a directory that comes first in PATH: kubeadm insists on that name in the pod. The
// component is the next program of that name in PATH.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const heldPath = "/lab/held"

func main() {
	name := filepath.Base(os.Args[0])
	// Who looks for the component by name is to find the component only. Linux has the name in this file.
	if err := os.WriteFile("/proc/self/comm", []byte("hold"), 0); err != nil {
		fmt.Fprintln(os.Stderr, "hold:", err)
		os.Exit(1)
	}
	_, rest, _ := strings.Cut(os.Getenv("PATH"), ":")
	os.Setenv("PATH", rest)
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	for {
		code := run(name, os.Args[1:], terminate)
		held := filepath.Join(heldPath, name)
		if !exists(held) {
			os.Exit(code)
		}
		waitUntilGone(held, terminate)
	}
}

// run runs the program until it ends, with the signals that this process gets, and returns its exit code.
func run(name string, args []string, terminate <-chan os.Signal) int {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "hold:", err)
		return 1
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait() // how it ended is in its state
	}()
	for {
		select {
		case s := <-terminate:
			cmd.Process.Signal(s)
		case <-ended:
			if code := cmd.ProcessState.ExitCode(); code >= 0 {
				return code
			}
			return 1 // a signal has ended it
		}
	}
}

// waitUntilGone returns when the file is gone, and does not return when the process is to end.
func waitUntilGone(file string, terminate <-chan os.Signal) {
	for exists(file) {
		select {
		case <-terminate:
			os.Exit(0)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
