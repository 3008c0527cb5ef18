package cluster

import (
	"context"
	"os/exec"
	"slices"
	"syscall"
)

// ManagerFlags returns the flags that tell a controller manager, kcm or the original, where the cluster is and who it is
// there: the user's kubeconfig for all that takes one, the key for tokens and the CA.
func ManagerFlags(c Cluster, user User) []string {
	kubeconfig := c.Kubeconfig(user)
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--service-account-private-key-file=" + c.ServiceAccountKeyFile(),
		"--root-ca-file=" + c.RootCAFile(),
	}
}

// reference returns the command that runs the original from bin/labcluster on a cluster.
func reference(ctx context.Context, c Cluster, binary string, flags []string) *exec.Cmd {
	args := slices.Concat([]string{"attached", "kube-controller-manager"}, ManagerFlags(c, Reference), []string{
		// The user itself may do little: each loop works as a service account, as with kubeadm.
		"--use-service-account-credentials=true",
		"--bind-address=127.0.0.1",
		"--secure-port=0",
	}, flags)
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
