package lab

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/process"
)

// Process is a controller manager that a lab has started.
type Process struct {
	Name string
	// LogFile is where its log is kept, also after the lab.
	LogFile string
	// Port is the one on which it serves HTTPS.
	Port    string
	lab     *Lab
	process *process.Process
	// pod is set, and process is not, where the node's kubelet runs it.
	pod *cluster.StaticPod
}

// inCluster tells whether kcm is to run as a static pod of a kind cluster, in
// place of the original.
func inCluster() bool { return os.Getenv("PLACE") == "static-pod" }

// QuickLease are flags with which a replica takes over soon after the leader has
// died.
var QuickLease = []string{"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms"}

// loopsOf are the loops that a chapter adds. The original is told to run no
// others than kcm does.
var loopsOf = map[int][]string{
	4: {"serviceaccount-controller"},
	5: {"serviceaccount-token-controller", "root-ca-certificate-publisher-controller"},
	6: {"replicaset-controller", "replicationcontroller-controller"},
	7: {"deployment-controller"},
}

// flags are those that a chapter's kcm is run with. Earlier ones do not know all.
func (l *Lab) flags(port string) []string {
	if l.chapter < 2 {
		return []string{"--kubeconfig=" + l.Cluster.Kubeconfig(cluster.KCM)}
	}
	flags := cluster.ManagerFlags(l.Cluster, cluster.KCM)
	if l.chapter < 5 {
		flags = flags[:3] // the kubeconfigs
	} else {
		flags = append(flags, "--use-service-account-credentials")
	}
	return append(flags, "--bind-address=127.0.0.1", "--secure-port="+port)
}

// Start starts the stage's kcm, or the original with REFERENCE=1, as a process
// that goes by a name, and that runs until the lab ends. The flags come after
// those that tell it where the cluster is, and win.
func (s *Step) Start(name string, flags ...string) *Process {
	s.Helper()
	l := s.lab
	if inCluster() {
		return s.startInCluster(name)
	}
	port, err := process.FreePort()
	require.NoError(s, err)
	var cmd *exec.Cmd
	if Reference() {
		own := []string{"--secure-port=" + port}
		// Another --controllers would be added to this one and not take its place.
		if !slices.ContainsFunc(flags, func(flag string) bool { return strings.HasPrefix(flag, "--controllers=") }) {
			var loops []string
			for chapter := range l.chapter + 1 {
				loops = append(loops, loopsOf[chapter]...)
			}
			own = append(own, "--controllers="+strings.Join(loops, ","))
		}
		cmd = l.Cluster.Reference(context.Background(), append(own, flags...)...)
	} else {
		cmd = exec.Command(l.KCM, append(l.flags(port), flags...)...)
		cmd.SysProcAttr = endingWithUs()
	}
	p := &Process{Name: name, LogFile: filepath.Join(l.logs, name+".log"), Port: port, lab: l}
	s.Say("$ %s … %s    # %s", filepath.Base(cmd.Path), strings.Join(flags, " "), name)
	p.process, err = process.Start(cmd)
	require.NoError(s, err, "start %s", name)
	l.processes = append(l.processes, p)
	return p
}

// startInCluster runs kcm as a static pod, with the flags that kubeadm gives the
// original and no others. There is one: a step that wants a second is skipped.
func (s *Step) startInCluster(name string) *Process {
	s.Helper()
	if len(s.lab.processes) > 0 {
		s.skip("the static pod is the only controller manager, and has kubeadm's flags")
	}
	pod, err := cluster.RunStaticPod(s.lab.ctx, s.lab.Cluster, filepath.Dir(filepath.Dir(s.lab.KCM)))
	require.NoError(s, err, "run kcm as a static pod")
	p := &Process{Name: name, LogFile: filepath.Join(s.lab.logs, name+".log"), lab: s.lab, pod: pod}
	s.lab.processes = append(s.lab.processes, p)
	s.Kubectl("get -n kube-system pod " + pod.Name + " -o 'custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[0].image,READY:.status.containerStatuses[0].ready'")
	s.AwaitLog(p, "Nothing does the work of these controllers")
	return p
}

func (p *Process) running() bool {
	return p.pod != nil || p.process.Running()
}

// Kill ends the process if it runs, and keeps its log.
func (p *Process) Kill() {
	if p.pod == nil {
		p.process.Cmd.Process.Signal(syscall.SIGCONT) // it may have ended
		p.process.Kill()
	}
	if err := os.WriteFile(p.LogFile, []byte(p.Log()), 0o644); err != nil {
		p.lab.narrator.say("keep the log of %s: %v", p.Name, err)
	}
}

// Log is what it has printed so far.
func (p *Process) Log() string {
	if p.pod == nil {
		return p.process.Log.String()
	}
	log, err := p.pod.Log(context.WithoutCancel(p.lab.ctx))
	if err != nil {
		return fmt.Sprintf("the log of pod %s cannot be read: %v", p.pod.Name, err)
	}
	return log
}

// tail is the last n lines of its log.
func (p *Process) tail(n int) string { return process.LastLines(p.Log(), n) }

// Signal sends a signal to the process and shows how a reader would.
func (s *Step) Signal(p *Process, signal syscall.Signal) {
	s.Helper()
	if inCluster() {
		s.skip("the kubelet starts a static pod again")
	}
	name := map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGKILL: "KILL", syscall.SIGSTOP: "STOP", syscall.SIGCONT: "CONT"}[signal]
	s.Say("$ kill -%s %d    # %s", name, p.process.Cmd.Process.Pid, p.Name)
	require.NoError(s, p.process.Cmd.Process.Signal(signal))
}

// AwaitLog waits until the process has logged a line that matches, and returns
// and shows it.
func (s *Step) AwaitLog(p *Process, pattern string) string {
	s.Helper()
	expression := regexp.MustCompile(`(?m)^.*` + pattern + `.*$`)
	var line string
	s.Await(fmt.Sprintf("%s logs %s", p.Name, pattern), func(context.Context) (bool, string, error) {
		line = expression.FindString(p.Log())
		return line != "", "its last line is " + p.tail(1), nil
	})
	s.Say("%s: %s", p.Name, line)
	return line
}

// AwaitExit waits until the process has ended and returns its exit code; -1 is
// that of one that was killed.
func (s *Step) AwaitExit(p *Process) int {
	s.Helper()
	s.Await(p.Name+" has ended", func(context.Context) (bool, string, error) {
		return !p.running(), "it still runs", nil
	})
	code := p.process.Cmd.ProcessState.ExitCode()
	s.Say("%s has ended: %s", p.Name, p.process.Cmd.ProcessState)
	return code
}

// Stop asks the process to stop and waits until it has. kcm ends with 0, when
// all its loops have stopped; the original lets the signal kill it.
func (s *Step) Stop(p *Process) {
	s.Helper()
	s.Signal(p, syscall.SIGTERM)
	code := s.AwaitExit(p)
	if !Reference() {
		require.Equal(s, 0, code)
	}
}

// Get asks the process for a path, with a bearer token or without one, and
// returns the status code and what was answered.
func (s *Step) Get(p *Process, path, token string) (int, string, error) {
	request, err := http.NewRequestWithContext(s.lab.ctx, http.MethodGet, "https://127.0.0.1:"+p.Port+path, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := trusting.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// AwaitAnswer waits until the process answers a path with a status code, and
// returns what it answers.
func (s *Step) AwaitAnswer(p *Process, path, token string, code int) string {
	s.Helper()
	var body string
	who := "nobody in particular"
	if token != "" {
		who = "the bearer of a token"
	}
	s.Await(fmt.Sprintf("%s answers %s to %s with %d", p.Name, path, who, code), func(context.Context) (bool, string, error) {
		got, answer, err := s.Get(p, path, token)
		body = answer
		return got == code, fmt.Sprintf("%d %s", got, strings.TrimSpace(answer)), err
	})
	return body
}

// Token returns the bearer token of a new ServiceAccount that may do everything.
func (s *Step) Token() string {
	s.Helper()
	const namespace = metav1.NamespaceSystem
	account, err := s.lab.Client.CoreV1().ServiceAccounts(namespace).Create(s.lab.ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{GenerateName: "visitor-"}}, metav1.CreateOptions{})
	require.NoError(s, err)
	_, err = s.lab.Client.RbacV1().ClusterRoleBindings().Create(s.lab.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account.Name}},
	}, metav1.CreateOptions{})
	require.NoError(s, err)
	token, err := s.lab.Client.CoreV1().ServiceAccounts(namespace).CreateToken(s.lab.ctx, account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(s, err)
	return token.Status.Token
}
