package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/await"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

// TestFaults breaks one component after the other of a cluster of its own.
func TestFaults(t *testing.T) {
	t.Parallel()
	clustertest.SkipIfShort(t)
	c, err := cluster.StartEmbedded(t.Context(), cluster.Options{Nodes: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	config := c.RESTConfig(cluster.Admin)
	config.Timeout = 2 * time.Second // a server that is frozen accepts connections and never answers
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	namespaces := func() error {
		_, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		return err
	}
	status := func() (string, int) { return labcluster(t, "status", "--dir", c.Dir) }

	t.Run("it is not the cluster beside it, and the original works on it", func(t *testing.T) {
		require.NotEqual(t, clustertest.Cluster(t).Server, c.Server)
		ctx, cancel := context.WithCancel(t.Context())
		reference := c.Reference(ctx, "--controllers=serviceaccount-controller", "--leader-elect=false")
		require.NoError(t, reference.Start())
		defer func() { cancel(); _ = reference.Wait() }()
		clustertest.Eventually(t, "the original has created the default ServiceAccount", func(ctx context.Context) error {
			_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
			return err
		})
		events, err := c.AuditEvents(func(e *cluster.AuditEvent) bool {
			return e.Verb == "create" && e.ObjectRef.Resource == "serviceaccounts" && e.ObjectRef.Namespace == "default"
		})
		require.NoError(t, err)
		require.Equal(t, "system:serviceaccount:kube-system:service-account-controller", events[0].User.Username)
		_, err = clustertest.Client(t).CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		require.ErrorContains(t, err, "not found")
	})
	t.Run("a killed API server is dead until it is restarted", func(t *testing.T) {
		require.NoError(t, c.Disturb(t.Context(), "kill", cluster.APIServer))
		require.Error(t, namespaces())
		output, code := status()
		require.Equal(t, 3, code)
		require.Contains(t, output, "was ended by signal 9 (killed) as asked")
		require.ErrorContains(t, c.Disturb(t.Context(), "kill", cluster.APIServer), "does not run")

		require.NoError(t, c.Disturb(t.Context(), "restart", cluster.APIServer))
		require.NoError(t, namespaces())
		_, code = status()
		require.Zero(t, code)
	})
	t.Run("data survive the restart of etcd", func(t *testing.T) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
		_, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, c.Disturb(t.Context(), "kill", cluster.Etcd))
		require.NoError(t, c.Disturb(t.Context(), "restart", cluster.Etcd))
		clustertest.Eventually(t, "the namespace is still there", func(ctx context.Context) error {
			_, err := client.CoreV1().Namespaces().Get(ctx, "kept", metav1.GetOptions{})
			return err
		})
	})
	t.Run("a stopped API server hangs and then goes on", func(t *testing.T) {
		require.NoError(t, c.Disturb(t.Context(), "stop", cluster.APIServer))
		require.Error(t, namespaces())
		output, code := status()
		require.Equal(t, 3, code)
		require.Contains(t, output, "stopped (SIGSTOP)")
		require.NoError(t, c.Disturb(t.Context(), "cont", cluster.APIServer))
		clustertest.Eventually(t, "the server answers again", func(context.Context) error { return namespaces() })
	})
	t.Run("a restarted kwok has the nodes again at once", func(t *testing.T) {
		begin := time.Now()
		require.NoError(t, c.Disturb(t.Context(), "restart", cluster.Kwok))
		require.Less(t, time.Since(begin), 15*time.Second, "the Leases of the one before run for 16 s")
	})
	t.Run("a restarted scheduler is ready", func(t *testing.T) {
		require.NoError(t, c.Disturb(t.Context(), "restart", cluster.Scheduler))
	})
	t.Run("a frozen component is said to be, and how it goes on", func(t *testing.T) {
		require.NoError(t, c.Disturb(t.Context(), "stop", cluster.Scheduler))
		output, code := status()
		require.Equal(t, 3, code)
		require.Contains(t, output, "bin/labcluster cont kube-scheduler")
		require.NoError(t, c.Disturb(t.Context(), "cont", cluster.Scheduler))
	})
	t.Run("a component that crashes is reported with the last words of its log", func(t *testing.T) {
		require.NoError(t, syscall.Kill(pids(t, c.Dir)[cluster.Etcd], syscall.SIGABRT))
		clustertest.Eventually(t, "etcd is reported", func(context.Context) error {
			if output, code := status(); code != 3 || !strings.Contains(output, "the last words of etcd") {
				return errors.New(output)
			}
			return nil
		})
	})
	t.Run("an unknown component is refused", func(t *testing.T) {
		output, code := labcluster(t, "kill", "kubelet", "--dir", c.Dir)
		require.Equal(t, 1, code)
		oneLine(t, output, `no component "kubelet": it is one of etcd, kube-apiserver, kube-scheduler, kwok`)
	})
	t.Run("it ends when it can no longer be recognised", func(t *testing.T) {
		processes := pids(t, c.Dir)
		require.NoError(t, os.Remove(filepath.Join(c.Dir, "cluster.json")))
		untilEnded(t, processes)
		require.False(t, exists(c.Dir))
	})
}

// pids reads the process ids that the supervisor has noted.
func pids(t *testing.T, dir string) map[string]int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	require.NoError(t, err)
	var state struct{ Pids map[string]int }
	require.NoError(t, json.Unmarshal(content, &state))
	return state.Pids
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestAClusterEndsWithTheProcessThatStartedIt(t *testing.T) {
	t.Parallel()
	clustertest.SkipIfShort(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1")
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	var dir string
	var reference int
	_, err = fmt.Fscan(output, &dir, &reference)
	require.NoError(t, err)
	processes := pids(t, dir)
	processes["the original"] = reference
	for name, pid := range processes {
		require.True(t, alive(pid), name)
	}

	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	untilEnded(t, processes)
	clustertest.Eventually(t, "its directory is gone", func(context.Context) error {
		if exists(dir) {
			return errors.New("it is there")
		}
		return nil
	})
}

func TestADeadSupervisorTakesItsComponentsAlongAndDownCleansUp(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cluster")
	output, code := labcluster(t, "up", "--dir", dir, "--nodes", "1")
	require.Zero(t, code, output)
	t.Cleanup(func() { labcluster(t, "down", "--dir", dir) })
	require.Contains(t, output, "export KUBECONFIG="+filepath.Join(dir, "kubeconfig", "admin.kubeconfig"))

	t.Run("a second cluster in the directory is refused", func(t *testing.T) {
		output, code := labcluster(t, "up", "--dir", dir)
		require.Equal(t, 1, code)
		oneLine(t, output, "a cluster already runs in "+dir)
	})
	t.Run("its status is that it runs", func(t *testing.T) {
		output, code := labcluster(t, "status", "--dir", dir)
		require.Zero(t, code, output)
	})
	admin := "--kubeconfig=" + filepath.Join(dir, "kubeconfig", "admin.kubeconfig")
	t.Run("it is kubectl, too", func(t *testing.T) {
		output, code := labcluster(t, "kubectl", admin, "get", "nodes")
		require.Zero(t, code)
		require.Contains(t, output, "node-1")
	})
	t.Run("a node has no server of a kubelet and is not looked for in the DNS", func(t *testing.T) {
		output, code := labcluster(t, "kubectl", admin, "get", "--raw", "/api/v1/nodes/node-1/proxy/healthz")
		require.NotZero(t, code)
		require.Contains(t, output, "no preferred addresses found")
	})

	processes := pids(t, dir)
	supervisor := processes["supervisor"]
	t.Run("commands do not hang when the supervisor is frozen, and say what to do", func(t *testing.T) {
		require.NoError(t, syscall.Kill(supervisor, syscall.SIGSTOP))
		output, code := labcluster(t, "status", "--dir", dir)
		require.Equal(t, 1, code)
		oneLine(t, output, "does not answer", fmt.Sprintf("kill -9 %d", supervisor))
	})
	require.NoError(t, syscall.Kill(processes["etcd"], syscall.SIGSTOP), "a frozen component ends, too")
	require.NoError(t, syscall.Kill(supervisor, syscall.SIGKILL))
	untilEnded(t, processes)
	// The lock of a process is held until its last thread has ended.
	clustertest.Eventually(t, "the supervisor is known to be dead", func(context.Context) error {
		if output, code := labcluster(t, "status", "--dir", dir); code != 4 {
			return errors.New(output)
		}
		return nil
	})
	for _, args := range [][]string{{"status"}, {"up"}, {"kill", "etcd"}} {
		output, code = labcluster(t, append(args, "--dir", dir)...)
		require.Equal(t, 4, code, output)
		oneLine(t, output, "no longer runs: remove it with 'bin/labcluster down --dir "+dir+"'")
	}

	output, code = labcluster(t, "down", "--dir", dir)
	require.Zero(t, code, output)
	oneLine(t, output, "what was left of it is gone")
	require.False(t, exists(dir))
}

func zombie(pid int) bool {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(content), ") Z ")
}

func TestAnInterruptedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cluster")
	up := exec.Command(binary(t), "up", "--dir", dir)
	stderr, err := up.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, up.Start())
	_, err = bufio.NewReader(stderr).ReadString('\n') // it has begun
	require.NoError(t, err)
	require.NoError(t, up.Process.Signal(syscall.SIGINT))
	require.Error(t, up.Wait())
	require.Equal(t, 130, up.ProcessState.ExitCode())
	require.False(t, exists(dir))
}

func TestACrashDuringTheStartIsItsError(t *testing.T) {
	t.Parallel()
	clustertest.SkipIfShort(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dir := filepath.Join(t.TempDir(), "cluster")
	go killWhenItStarts(ctx, dir, "kube-apiserver")
	_, err := cluster.StartEmbedded(t.Context(), cluster.Options{Dir: dir, Nodes: 1})
	require.ErrorContains(t, err, "kube-apiserver was ended by signal 9 (killed)")
	require.False(t, exists(dir))
}

// killWhenItStarts kills a component as soon as the supervisor has noted its id.
func killWhenItStarts(ctx context.Context, dir, component string) {
	_ = await.Until(ctx, 10*time.Millisecond, time.Minute, component+" has started", func(context.Context) error {
		content, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
		if err != nil {
			return err
		}
		var state struct{ Pids map[string]int }
		if json.Unmarshal(content, &state) != nil || state.Pids[component] == 0 {
			return errors.New("no id")
		}
		return syscall.Kill(state.Pids[component], syscall.SIGKILL)
	})
}

func TestDirectoriesThatAreNotOursAreLeftAlone(t *testing.T) {
	t.Parallel()
	foreign := t.TempDir()
	write(t, foreign, "thesis.txt", "years of work")
	for _, args := range [][]string{{"up"}, {"down"}, {"status"}} {
		output, code := labcluster(t, args[0], "--dir", foreign)
		require.Equal(t, 1, code)
		oneLine(t, output, "not a lab cluster's directory", "choose another with --dir")
		require.True(t, exists(filepath.Join(foreign, "thesis.txt")))
	}

	file := filepath.Join(foreign, "thesis.txt")
	output, code := labcluster(t, "up", "--dir", filepath.Join(file, "cluster"))
	require.Equal(t, 1, code)
	oneLine(t, output, "cannot create the cluster's directory", "choose another with --dir")

	// Another program's cluster.json, next to directories that have the names of a lab cluster's.
	another := t.TempDir()
	write(t, another, "cluster.json", `{"dir": "`+another+`"}`)
	for _, name := range []string{"config", "logs", "etcd"} {
		write(t, filepath.Join(another, name), "thesis.txt", "years of work")
	}
	for _, command := range []string{"up", "down", "status"} {
		output, code := labcluster(t, command, "--dir", another)
		require.Equal(t, 1, code)
		oneLine(t, output, "not a lab cluster's directory")
	}
	for _, name := range []string{"config", "logs", "etcd"} {
		require.True(t, exists(filepath.Join(another, name, "thesis.txt")), name)
	}

	half := t.TempDir()
	write(t, half, "cluster.json", `{"kind": "labcluster"}`)
	write(t, half, "thesis.txt", "years of work")
	output, code = labcluster(t, "down", "--dir", half)
	require.Equal(t, 1, code)
	oneLine(t, output, "holds files that are not labcluster's: thesis.txt")
	require.True(t, exists(filepath.Join(half, "thesis.txt")))
}

func TestWhereNoClusterIsIsSaid(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	output, code := labcluster(t, "down", "--dir", none)
	require.Zero(t, code, "there is nothing to do")
	oneLine(t, output, "no cluster in "+none)
	output, code = labcluster(t, "status", "--dir", none)
	require.Equal(t, 4, code)
	oneLine(t, output, "no cluster in "+none, "bin/labcluster up")
}

func TestAClusterEndsWhenItsDirectoryIsRemoved(t *testing.T) {
	t.Parallel()
	clustertest.SkipIfShort(t)
	dir := filepath.Join(t.TempDir(), "cluster")
	c, err := cluster.StartEmbedded(t.Context(), cluster.Options{Dir: dir, Nodes: 1})
	require.NoError(t, err)
	defer c.Close()
	processes := pids(t, dir)
	// To the supervisor, moved away and removed are the same; a removal could fail because it still writes there.
	require.NoError(t, os.Rename(dir, dir+"-moved"))
	untilEnded(t, processes)
}

// untilEnded waits until none of the processes is alive.
func untilEnded(t *testing.T, processes map[string]int) {
	t.Helper()
	clustertest.Eventually(t, "its processes are gone", func(context.Context) error {
		for name, pid := range processes {
			if alive(pid) && !zombie(pid) {
				return errors.New(name + " is alive")
			}
		}
		return nil
	})
}

func TestDownEndsAClusterThatIsStillStarting(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cluster")
	up := exec.Command(binary(t), "up", "--dir", dir)
	var said strings.Builder
	up.Stderr = &said
	require.NoError(t, up.Start())
	clustertest.Eventually(t, "it has begun", func(context.Context) error {
		_, err := os.Stat(filepath.Join(dir, "cluster.json"))
		return err
	})
	output, code := labcluster(t, "down", "--dir", dir)
	require.Zero(t, code, output)
	require.Error(t, up.Wait())
	require.Contains(t, said.String(), "labcluster: interrupted; nothing is left running\n")
	require.False(t, exists(dir))
}

func TestAMistypedCommandIsToldWhatIsSimilar(t *testing.T) {
	t.Parallel()
	output, code := labcluster(t, "kil", "etcd")
	require.Equal(t, 1, code)
	require.Contains(t, output, `unknown command "kil"`)
	require.Contains(t, output, "Did you mean this?\n\tkill\n")
}
