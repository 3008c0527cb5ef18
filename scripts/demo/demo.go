package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
)

const (
	// patience is how long any part may take before the demo gives up.
	patience = 3 * time.Minute
	// look is how often the demo looks for what it waits for.
	look = 50 * time.Millisecond
)

type demo struct {
	story     *story
	cluster   *cluster.Cluster
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	kcm       string
	logs      string
	replicas  map[string]*exec.Cmd
	recording *history.Recording
}

// elect starts two replicas and shows which of them leads.
func (d *demo) elect(ctx context.Context) error {
	d.story.step("Two replicas of kcm elect a leader")
	for _, name := range []string{"kcm-1", "kcm-2"} {
		if err := d.startReplica(name); err != nil {
			return err
		}
	}
	leader, err := d.waitForLeader(ctx, "")
	if err != nil {
		return err
	}
	d.story.say("%s holds the Lease kube-system/kube-controller-manager and runs the loops; the other waits", leader)
	return nil
}

// startReplica starts a kcm whose name stands before its logs. The Lease runs
// out sooner than by default, or we would wait 15 seconds for a dead leader.
func (d *demo) startReplica(name string) error {
	log, err := os.Create(d.logFile(name))
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	flags := append(cluster.ManagerFlags(d.cluster, cluster.KCM),
		"--use-service-account-credentials",
		"--secure-port=0",
		"--leader-elect-lease-duration=4s",
		"--leader-elect-renew-deadline=3s",
		"--leader-elect-retry-period=500ms",
	)
	cmd := exec.Command(d.kcm, flags...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to handle
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	if d.replicas == nil {
		d.replicas = map[string]*exec.Cmd{}
	}
	d.replicas[name] = cmd
	d.story.say("%s is process %d", name, cmd.Process.Pid)
	return nil
}

// stopReplica sends a signal and waits until the process has ended. One that
// does not end in time is killed.
func (d *demo) stopReplica(name string, signal syscall.Signal) {
	cmd := d.replicas[name]
	delete(d.replicas, name)
	kill := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer kill.Stop()
	cmd.Process.Signal(signal)
	cmd.Wait() // it ends in the way that the signal makes it
}

func (d *demo) stopReplicas() {
	for name := range d.replicas {
		d.stopReplica(name, syscall.SIGKILL)
	}
}

// waitForLeader waits until a replica other than previous leads, and returns
// its name.
func (d *demo) waitForLeader(ctx context.Context, previous string) (string, error) {
	var leader string
	err := d.wait(ctx, "a replica leads", func() (bool, string, error) {
		lease, err := d.client.CoordinationV1().Leases("kube-system").Get(ctx, "kube-controller-manager", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return false, fmt.Sprint(err), nil
		}
		holder := *lease.Spec.HolderIdentity
		leader, err = d.replicaWithIdentity(holder)
		return leader != "" && leader != previous, "holder " + holder, err
	})
	return leader, err
}

// replicaWithIdentity finds out from the logs who goes by an identity: a
// replica says it in its first line.
func (d *demo) replicaWithIdentity(identity string) (string, error) {
	if identity == "" {
		return "", nil
	}
	for name := range d.replicas {
		log, err := os.ReadFile(d.logFile(name))
		if err != nil {
			return "", err
		}
		if strings.Contains(string(log), fmt.Sprintf("identity=%q", identity)) {
			return name, nil
		}
	}
	return "", nil
}

// wait calls done until it is, and fails with what was seen last.
func (d *demo) wait(ctx context.Context, what string, done func() (bool, string, error)) error {
	var seen string
	err := wait.PollUntilContextTimeout(ctx, look, patience, true, func(context.Context) (ok bool, err error) {
		ok, seen, err = done()
		return ok, err
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("waited until %s; last seen: %s", what, seen)
	}
	return err
}
