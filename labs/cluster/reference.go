package cluster

import (
	"context"
	"os/exec"
	"syscall"
)

// reference returns the command that runs the original from bin/labcluster on this cluster.
func (a *access) reference(ctx context.Context, binary string, flags []string) *exec.Cmd {
	kubeconfig := a.Kubeconfig(Reference)
	args := append([]string{
		"attached", "kube-controller-manager",
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--service-account-private-key-file=" + a.ServiceAccountKeyFile(),
		"--root-ca-file=" + a.RootCAFile(),
		// The user itself may do little: each loop works as a service account, as with kubeadm.
		"--use-service-account-credentials=true",
		"--bind-address=127.0.0.1",
		"--secure-port=0",
	}, flags...)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = closeTimeout
	// It ends with its standard input, whose other end the kernel closes when this process ends, in whatever way. An error
	// here is the answer of the caller's Start.
	if _, err := cmd.StdinPipe(); err != nil {
		cmd.Err = err
	}
	return cmd
}
