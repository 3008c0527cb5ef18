package cluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/kcm-book/kcm-book/labs/process"
)

// ManagerFlags returns the flags that tell a controller manager, kcm or the original, where the cluster is and who it
// is there: the user's kubeconfig for all that takes one, the key for tokens, and the CA with its key.
func ManagerFlags(c *Cluster, user User) []string {
	kubeconfig := c.Kubeconfigs[user]
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--service-account-private-key-file=" + c.ServiceAccountKey,
		"--root-ca-file=" + c.RootCA,
		"--cluster-signing-cert-file=" + c.RootCA,
		"--cluster-signing-key-file=" + filepath.Join(c.Dir, "pki", "ca.key"),
	}
}

// How long the original gets to end after SIGTERM before it is killed.
const referenceEnds = 15 * time.Second

// Reference returns the command that runs the original kube-controller-manager on this cluster as the user Reference,
// each loop with its own service account, and with no open port. The given flags come last and win, so
// "--secure-port=12345" makes it serve. The caller starts it and waits for it; the end of ctx sends it SIGTERM, and on
// Linux the end of the calling process, in whatever way, ends it too.
func (c *Cluster) Reference(ctx context.Context, flags ...string) *exec.Cmd {
	args := slices.Concat(ManagerFlags(c, Reference), []string{
		// The user itself may do little: each loop works as a service account, as with kubeadm.
		"--use-service-account-credentials=true",
		"--bind-address=127.0.0.1",
		"--secure-port=0",
	}, flags)
	binary, err := Binary(ctx, "kube-controller-manager", os.Stderr)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = referenceEnds
	cmd.SysProcAttr = process.EndingWithUs()
	if err != nil {
		cmd.Err = err // the caller's Start returns it
	}
	return cmd
}
