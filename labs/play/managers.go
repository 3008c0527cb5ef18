package play

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"al.essio.dev/pkg/shellescape"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/process"
)

// Manager is a controller manager that scripts can start: kcm or the original.
type Manager struct {
	// Name is the name of its program.
	Name string
	// Reference tells that it is the original.
	Reference bool
	// Loops are the controllers that take part. The original runs no others.
	Loops []string

	byItself  func(ctx context.Context, args ...string) *exec.Cmd
	onCluster func(flags ...string) *exec.Cmd
	pod       func(context.Context) (*cluster.StaticPod, error)
}

// KCM is a program that is kcm, on a cluster, or on none if c is nil. Earlier
// chapters' do not know all flags, so it is asked which it has, and for its
// controllers. Variables are added to its environment.
func KCM(ctx context.Context, c *cluster.Cluster, program string, variables ...string) (*Manager, error) {
	m := &Manager{Name: "kcm"}
	m.byItself = func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), variables...)
		return cmd
	}
	help, err := m.byItself(ctx, "--help").Output()
	if err != nil {
		return nil, fmt.Errorf("run %s --help: %w", program, err)
	}
	if found := regexp.MustCompile(`All controllers: (.*)`).FindSubmatch(help); found != nil {
		m.Loops = strings.Split(string(found[1]), ", ")
	}
	m.onCluster = func(flags ...string) *exec.Cmd {
		all := append(cluster.ManagerFlags(c, cluster.KCM), "--use-service-account-credentials=true", "--bind-address=127.0.0.1")
		all = slices.DeleteFunc(all, func(flag string) bool {
			name, _, _ := strings.Cut(flag, "=")
			return !bytes.Contains(help, []byte(" "+name+" "))
		})
		cmd := m.byItself(context.Background(), append(all, flags...)...)
		cmd.SysProcAttr = endingWithUs()
		return cmd
	}
	return m, nil
}

// InPod has the kubelet of a kind cluster run the kcm of the module in dir as a
// static pod, with the flags that kubeadm gives the original, and no others.
func (m *Manager) InPod(c *cluster.Cluster, dir string) {
	m.pod = func(ctx context.Context) (*cluster.StaticPod, error) { return cluster.RunStaticPod(ctx, c, dir) }
}

// Original is the original kube-controller-manager on a cluster, or on none if c
// is nil.
func Original(ctx context.Context, c *cluster.Cluster, loops []string) (*Manager, error) {
	binary, err := cluster.Binary(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	return &Manager{
		Name: "kube-controller-manager", Reference: true, Loops: loops,
		byItself: func(ctx context.Context, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, binary, append([]string{"kube-controller-manager"}, args...)...)
		},
		onCluster: func(flags ...string) *exec.Cmd { return c.Reference(context.Background(), flags...) },
	}, nil
}

// manager is one that was started.
type manager struct {
	name string
	// log is the file that keeps its log, also after the play.
	log  string
	port string
	*process.Process
	pod *cluster.StaticPod // instead of a process
}

// said is what it has logged so far.
func (m *manager) said() string {
	if m.pod == nil {
		return m.Log.String()
	}
	log, err := m.pod.Log(context.Background())
	if err != nil {
		return fmt.Sprintf("the log of pod %s cannot be read: %v", m.pod.Name, err)
	}
	return log
}

// RunLoops runs all loops with one manager, until stop is called. It is an error
// of stop if the manager has ended before. Log is what it has said.
func (s *Setting) RunLoops() (log *process.Log, stop func() error, err error) {
	p, err := s.run(s.Manager.Loops, "--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=2000")
	if err != nil {
		return nil, nil, err
	}
	s.LoopsRun = true
	return p.Log, func() error {
		if !p.Running() {
			return fmt.Errorf("the controller manager has ended while scripts were played; its log ends:\n%s", process.LastLines(p.Log.String(), 20))
		}
		p.Kill()
		return nil
	}, nil
}

// run starts a manager with a choice of controllers.
func (s *Setting) run(controllers []string, flags ...string) (*manager, error) {
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	own := []string{"--secure-port=" + port}
	if len(controllers) > 0 {
		own = append(own, "--controllers="+strings.Join(controllers, ","))
	}
	p, err := process.Start(s.Manager.onCluster(append(own, flags...)...))
	return &manager{port: port, Process: p}, err
}

// takesOverSoon are flags with which a replica takes over soon after the leader
// has died.
var takesOverSoon = []string{"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms"}

// harmless is a loop that disturbs no script when it runs twice.
const harmless = "serviceaccount-controller"

func (p *Play) start(c *call) error {
	name := c.args[0]
	if p.managers[name] != nil {
		return fmt.Errorf("%s was started already", name)
	}
	if p.Manager.pod != nil {
		return p.startPod(name)
	}
	var controllers []string
	switch {
	case p.LoopsRun:
		controllers = []string{harmless}
	case p.Manager.Reference:
		controllers = p.Manager.Loops
	}
	flags := slices.Clone(takesOverSoon)
	if p.LoopsRun {
		flags = append(flags, "--leader-elect-resource-namespace="+p.namespace)
	}
	for _, flag := range c.args[1:] {
		// This flag would add to what was said before.
		if wanted, found := strings.CutPrefix(flag, "--controllers="); found {
			controllers = strings.Split(wanted, ",")
			continue
		}
		flags = append(flags, flag)
	}
	command := append([]string{p.Manager.Name, "…"}, c.args[1:]...)
	p.Narrator.Say(fmt.Sprintf("$ %s    # %s", shellescape.QuoteCommand(command), name))
	m, err := p.run(controllers, flags...)
	if err != nil {
		return err
	}
	p.keep(name, m)
	c.Setenv(name+"_PORT", m.port)
	return nil
}

func (p *Play) keep(name string, m *manager) {
	m.name, m.log = name, filepath.Join(p.Logs, name+".log")
	p.managers[name] = m
}

// startPod runs kcm as a static pod. There can be one.
func (p *Play) startPod(name string) error {
	pod, err := p.Manager.pod(p.ctx)
	if err != nil {
		return fmt.Errorf("run kcm as a static pod: %w", err)
	}
	p.keep(name, &manager{pod: pod})
	p.Narrator.Say(fmt.Sprintf("%s is pod %s in namespace kube-system, in place of the original", name, pod.Name))
	return nil
}

// endManagers ends those that still run, and keeps the logs of all.
func (p *Play) endManagers() {
	for _, m := range p.managers {
		if m.pod == nil {
			m.Cmd.Process.Signal(syscall.SIGCONT) // it may have ended
			m.Kill()
		}
		if err := os.WriteFile(m.log, []byte(m.said()), 0o644); err != nil {
			p.Narrator.Say(fmt.Sprintf("keep the log of %s: %v", m.name, err))
		}
	}
}

func (p *Play) manager(name string) (*manager, error) {
	if m := p.managers[name]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("no manager %s was started", name)
}

// process is a manager that is one, and no static pod.
func (p *Play) process(name string) (*manager, error) {
	m, err := p.manager(name)
	if err == nil && m.pod != nil {
		err = fmt.Errorf("%s is a static pod, and no process of ours: write \"only process\" before this", name)
	}
	return m, err
}

var signals = map[string]syscall.Signal{
	"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
}

func signalNamed(name string) (syscall.Signal, error) {
	signal, known := signals[name]
	if !known {
		return 0, fmt.Errorf("unknown signal %s; there are TERM, KILL, STOP and CONT", name)
	}
	return signal, nil
}

var components = []cluster.Component{cluster.Etcd, cluster.APIServer, cluster.Scheduler, cluster.Kwok}

func (p *Play) signal(c *call) error {
	if component := cluster.Component(c.args[0]); slices.Contains(components, component) {
		return p.signalComponent(component, c.args[1])
	}
	m, err := p.process(c.args[0])
	if err != nil {
		return err
	}
	signal, err := signalNamed(c.args[1])
	if err != nil {
		return err
	}
	p.Narrator.Say(fmt.Sprintf("$ kill -%s %d    # %s", c.args[1], m.Cmd.Process.Pid, m.name))
	return m.Cmd.Process.Signal(signal)
}

func (p *Play) signalComponent(component cluster.Component, signal string) error {
	do := map[string]func(context.Context, cluster.Component) error{
		"KILL": p.Cluster.Kill, "STOP": p.Cluster.Stop, "CONT": p.Cluster.Continue,
	}[signal]
	if do == nil {
		return fmt.Errorf("%s takes KILL, STOP or CONT, not %s", component, signal)
	}
	told := map[string]string{"KILL": "killed", "STOP": "frozen", "CONT": "let go on"}[signal]
	p.Narrator.Say(fmt.Sprintf("%s is %s", component, told))
	return do(p.ctx, component)
}

func (p *Play) restart(c *call) error {
	return p.Cluster.Restart(p.ctx, cluster.Component(c.args[0]))
}

func (p *Play) waitForLog(c *call) error {
	m, err := p.manager(c.args[0])
	if err != nil {
		return err
	}
	wanted, err := regexp.Compile(`(?m)^.*(?:` + c.args[1] + `).*$`)
	if err != nil {
		return err
	}
	if c.not {
		if line := wanted.FindString(m.said()); line != "" {
			return fmt.Errorf("%s has logged: %s", m.name, line)
		}
		return nil
	}
	var line string
	err = p.waitFor(m, fmt.Sprintf("%s logs %q", c.args[0], c.args[1]), func() (bool, error) {
		line = wanted.FindString(m.said())
		return line != "", errors.New("its last line is " + process.LastLines(m.said(), 1))
	})
	p.Narrator.Say(m.name + ": " + line)
	fmt.Fprintln(c.Stdout(), line)
	return err
}

// waitFor is wait about a manager: its log tells why it is in vain.
func (p *Play) waitFor(m *manager, what string, done func() (bool, error)) error {
	err := p.wait(what, done)
	if err != nil && !errors.Is(err, errInterrupted) {
		err = fmt.Errorf("%w\nits log ends:\n%s", err, process.LastLines(m.said(), 20))
	}
	return err
}

func (p *Play) exits(c *call) error {
	m, err := p.process(c.args[0])
	if err != nil {
		return err
	}
	wanted, err := code(c.args[1])
	if err != nil {
		return err
	}
	err = p.waitFor(m, c.args[0]+" has ended", func() (bool, error) { return !m.Running(), nil })
	if err != nil {
		return err
	}
	if code := m.Cmd.ProcessState.ExitCode(); code != wanted {
		return fmt.Errorf("%s has ended with exit code %d; its log ends:\n%s", c.args[0], code, process.LastLines(m.said(), 20))
	}
	return nil
}

// code is an exit code or that of an answer.
func code(arg string) (int, error) {
	code, err := strconv.Atoi(arg)
	if err != nil {
		return 0, fmt.Errorf("%q is not a code", arg)
	}
	return code, nil
}

// end asks a manager to stop. kcm ends with 0 when all its loops have stopped;
// the original lets the signal kill it.
func (p *Play) end(c *call) error {
	if err := p.signal(&call{TestScript: c.TestScript, args: []string{c.args[0], "TERM"}}); err != nil {
		return err
	}
	code := "0"
	if p.Manager.Reference {
		code = "-1"
	}
	return p.exits(&call{TestScript: c.TestScript, args: []string{c.args[0], code}})
}

// longestOutput is how many lines of a program's output a narrator shows.
const longestOutput = 30

// runManager runs the manager until it ends, somewhere that is not a pod.
func (p *Play) runManager(c *call) error {
	p.Narrator.Say("$ " + p.Manager.Name + " " + shellescape.QuoteCommand(c.args))
	ctx, cancel := context.WithTimeout(p.ctx, p.Patience)
	defer cancel()
	cmd := p.Manager.byItself(ctx, c.args...)
	cmd.Dir = p.Dir
	cmd.Env = slices.DeleteFunc(append(cmd.Environ(), "KUBECONFIG="+c.Getenv("KUBECONFIG")), func(variable string) bool {
		return strings.HasPrefix(variable, "KUBERNETES_SERVICE_")
	})
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	fmt.Fprint(c.Stdout(), stdout.String())
	fmt.Fprint(c.Stderr(), stderr.String())
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("it has not ended by itself in %v", p.Patience)
	}
	said := strings.Split(strings.TrimSpace(stdout.String()+stderr.String()), "\n")
	if more := len(said) - longestOutput; more > 0 {
		said = append(said[:longestOutput], fmt.Sprintf("… and %d more lines", more))
	}
	code := cmd.ProcessState.ExitCode()
	p.Narrator.Say(strings.Join(said, "\n"))
	p.Narrator.Say(fmt.Sprintf("exit code %d", code))
	if wanted := map[bool]int{true: 1}[c.not]; code != wanted {
		return fmt.Errorf("it has ended with exit code %d, and not with %d", code, wanted)
	}
	return nil
}

func (p *Play) get(c *call) error {
	m, err := p.process(c.args[0])
	if err != nil {
		return err
	}
	wanted, content := http.StatusOK, regexp.MustCompile("")
	if len(c.args) >= 4 {
		if wanted, err = code(c.args[3]); err != nil {
			return err
		}
	}
	if len(c.args) == 5 {
		if content, err = regexp.Compile("(?m)" + c.args[4]); err != nil {
			return err
		}
	}
	client, err := p.clientOf(c.args[1])
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	var body []byte
	what := fmt.Sprintf("%s answers %s to %s with %d", c.args[0], c.args[2], c.args[1], wanted)
	err = p.waitFor(m, what, func() (bool, error) {
		request, err := http.NewRequestWithContext(p.ctx, http.MethodGet, "https://127.0.0.1:"+m.port+c.args[2], nil)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if wanted == 0 && errors.Is(err, syscall.ECONNREFUSED) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		defer response.Body.Close()
		if body, err = io.ReadAll(response.Body); err != nil {
			return false, err
		}
		return response.StatusCode == wanted && content.Match(body), fmt.Errorf("%s: %s", response.Status, body)
	})
	if !c.meanwhile {
		c.Stdout().Write(body)
	}
	return err
}

// clientOf returns a client with the credentials of a user: admin, account (the
// default ServiceAccount), account/NAME, forger (who has made up a token; each
// forger/NAME another one) or anonymous.
func (p *Play) clientOf(user string) (*http.Client, error) {
	config := &rest.Config{}
	kind, name, _ := strings.Cut(user, "/")
	switch kind {
	case "admin":
		config = p.Cluster.RESTConfig(cluster.Admin)
	case "account":
		token, err := p.token(name)
		if err != nil {
			return nil, err
		}
		config.BearerToken = token
	case "forger":
		config.BearerToken = "made-up" + name
	case "anonymous":
	default:
		return nil, fmt.Errorf("unknown user %s: use admin, account, account/NAME, forger, forger/NAME or anonymous", user)
	}
	// The manager has made its certificate itself.
	config.TLSClientConfig.Insecure = true
	config.TLSClientConfig.CAData, config.TLSClientConfig.CAFile = nil, ""
	config.Timeout = p.Patience
	return rest.HTTPClientFor(config)
}

// token returns the token of a ServiceAccount, each time the same.
func (p *Play) token(account string) (string, error) {
	if account == "" {
		account = "default"
	}
	if token := p.tokens[account]; token != "" {
		return token, nil
	}
	accounts := kubernetes.NewForConfigOrDie(p.Cluster.RESTConfig(cluster.Admin)).CoreV1().ServiceAccounts(cmp.Or(p.namespace, metav1.NamespaceDefault))
	token, err := accounts.CreateToken(p.ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask for a token of ServiceAccount %s: %w", account, err)
	}
	p.tokens[account] = token.Status.Token
	return token.Status.Token, nil
}

// bearer asks the API server who has a token.
func (p *Play) bearer(c *call) error {
	token, err := p.valueOf(c.args[:1])
	if err != nil {
		return err
	}
	client := kubernetes.NewForConfigOrDie(p.Cluster.RESTConfig(cluster.Admin)).AuthenticationV1().TokenReviews()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: fmt.Sprint(token.Value())}}
	review, err = client.Create(p.ctx, review, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("review a token: %w", err)
	}
	name := review.Status.User.Username
	if name != c.args[1] {
		return fmt.Errorf("the bearer is %q, and not %q", name, c.args[1])
	}
	p.Narrator.Say(fmt.Sprintf("the API server takes the bearer of %s for %q", c.args[0], name))
	return nil
}
