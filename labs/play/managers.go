package play

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"al.essio.dev/pkg/shellescape"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/process"
)

// manager is one that was started.
type manager struct {
	name string
	// log is the file that keeps its log, also after the play.
	log  string
	port string
	*process.Process
	// own tells that it is a program of the lab's own, and no controller manager.
	own bool
}

// Spectator watches managers.
type Spectator interface {
	// Flags are those with which each manager is started; those of a script win.
	Flags() []string
	// Started says that a manager was started, which serves on a port of this machine. Again starts one more like it.
	Started(name, port string, p *process.Process, again func() (port string, p *process.Process, err error))
	// Press does what a button does of the page on which the spectator shows the play.
	Press(ctx context.Context, button string) error
}

// said is what it has logged so far.
func (m *manager) said() string { return m.Log.String() }

// takesOverSoon are flags with which a replica takes over soon after the leader
// has died. On kind that takes longer: the control plane shares the machine with
// containers that start, and a leader must not lose its Lease to those.
func takesOverSoon() []string {
	duration, deadline := "4s", "3s"
	if cluster.OnKind() {
		duration, deadline = "15s", "13s"
	}
	return []string{"--leader-elect-lease-duration=" + duration, "--leader-elect-renew-deadline=" + deadline, "--leader-elect-retry-period=500ms"}
}

// harmless is a loop that disturbs no script when it runs twice.
const harmless = "serviceaccount-controller"

func (p *Play) start(c *call) error {
	name := c.args[0]
	if p.managers[name] != nil {
		return fmt.Errorf("%s was started already", name)
	}
	var controllers []string
	switch {
	case p.LoopsRun:
		controllers = []string{harmless}
	case p.Manager.Reference:
		controllers = p.Manager.Loops
	}
	flags := takesOverSoon()
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
	if p.Spectator != nil {
		p.Spectator.Started(name, m.port, m.Process, func() (string, *process.Process, error) {
			another, err := p.run(controllers, flags...)
			if err != nil {
				return "", nil, err
			}
			return another.port, another.Process, nil
		})
	}
	c.Setenv(name+"_PORT", m.port)
	return nil
}

// press has the spectator do something.
func (p *Play) press(c *call) error {
	if p.Spectator == nil {
		return errors.New("nobody looks on: VIEW=1 shows a lab on a page that has buttons")
	}
	return p.Spectator.Press(p.ctx, c.args[0])
}

// startProgram builds a program of the lab's own and starts it.
func (p *Play) startProgram(c *call) error {
	name, folder, args := c.args[0], c.args[1], c.args[2:]
	if p.managers[name] != nil {
		return fmt.Errorf("%s was started already", name)
	}
	binary := filepath.Join(p.Logs, filepath.Base(folder))
	build := exec.CommandContext(p.ctx, "go", "build", "-o", binary, "./"+folder)
	build.Dir = filepath.Join(p.Module, p.Dir)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", folder, err, out)
	}
	p.Narrator.Say(fmt.Sprintf("$ %s    # %s", shellescape.QuoteCommand(append([]string{filepath.Base(folder)}, args...)), name))
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.Cluster.Kubeconfig(cluster.Admin))
	cmd.SysProcAttr = endingWithUs()
	started, err := process.Start(cmd)
	if err != nil {
		return err
	}
	p.keep(name, &manager{Process: started, own: true})
	return nil
}

func (p *Play) keep(name string, m *manager) {
	m.name, m.log = name, filepath.Join(p.Logs, name+".log")
	p.managers[name] = m
}

// endManagers ends those that still run, and keeps the logs of all.
func (p *Play) endManagers() {
	for _, m := range p.managers {
		m.Cmd.Process.Signal(syscall.SIGCONT) // it may have ended
		m.Kill()
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
	m, err := p.manager(c.args[0])
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
	m, err := p.manager(c.args[0])
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
	if p.Manager.Reference && !p.managers[c.args[0]].own {
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
