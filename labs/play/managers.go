package play

import (
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

// takesOverSoon are flags with which a replica takes over soon after the leader has died. On kind that takes longer:
// the control plane shares the machine with containers that start, and a leader must not lose its Lease to those.
func takesOverSoon() []string {
	duration, deadline := "4s", "3s"
	if cluster.OnKind() {
		duration, deadline = "15s", "13s"
	}
	return []string{"--leader-elect-lease-duration=" + duration, "--leader-elect-renew-deadline=" + deadline,
		"--leader-elect-retry-period=500ms"}
}

// harmless is a loop that disturbs no script when it runs twice.
const harmless = "serviceaccount-controller"

func (p *Play) start(c *call) error {
	name := c.args[0]
	flags := takesOverSoon()
	var controllers []string
	switch {
	case p.LoopsRun:
		controllers = []string{harmless}
		flags = append(flags, "--leader-elect-resource-namespace="+p.namespace)
	case p.Manager.Reference:
		controllers = p.Manager.Loops
	}
	for _, flag := range c.rest("ARG") {
		// This flag would add to what was said before.
		if wanted, found := strings.CutPrefix(flag, "--controllers="); found {
			controllers = strings.Split(wanted, ",")
			continue
		}
		flags = append(flags, flag)
	}
	run := func() (string, *process.Process, error) { return p.run(controllers, flags...) }
	m, err := p.begin(name, append([]string{p.Manager.Name, "…"}, c.rest("ARG")...), run)
	if err != nil {
		return err
	}
	if p.Spectator != nil {
		p.Spectator.Started(name, m.port, m.Process, run)
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
	folder, args := c.args[1], c.rest("ARG")
	binary := filepath.Join(p.Logs, filepath.Base(folder))
	build := exec.CommandContext(p.ctx, "go", "build", "-o", binary, "./"+folder)
	build.Dir = filepath.Join(p.Module, p.Dir)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", folder, err, out)
	}
	typed := append([]string{filepath.Base(folder)}, args...)
	m, err := p.begin(c.args[0], typed, func() (string, *process.Process, error) {
		cmd := exec.Command(binary, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+p.Cluster.Kubeconfigs[cluster.Admin])
		cmd.SysProcAttr = process.EndingWithUs()
		started, err := process.Start(cmd)
		return "", started, err
	})
	if err == nil {
		m.own = true
	}
	return err
}

// begin starts a manager or a program, which ends with the script. Then its log is kept.
func (p *Play) begin(name string, typed []string, run func() (string, *process.Process, error)) (*manager, error) {
	if p.managers[name] != nil {
		return nil, fmt.Errorf("%s was started already", name)
	}
	p.Narrator.Say(fmt.Sprintf("$ %s    # %s", shellescape.QuoteCommand(typed), name))
	port, started, err := run()
	if err != nil {
		return nil, err
	}
	m := &manager{name: name, log: filepath.Join(p.Logs, name+".log"), port: port, Process: started}
	p.managers[name] = m
	p.ends = append(p.ends, func() {
		m.Kill()
		if err := os.WriteFile(m.log, []byte(m.Log.String()), 0o644); err != nil {
			p.Narrator.Say(fmt.Sprintf("keep the log of %s: %v", m.name, err))
		}
	})
	return m, nil
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

var components = []string{cluster.Etcd, cluster.APIServer, cluster.Scheduler, cluster.Kwok}

func (p *Play) signal(c *call) error {
	target, signal := c.args[0], c.args[1]
	if slices.Contains(components, target) {
		told := map[string]string{"KILL": "killed", "STOP": "frozen", "CONT": "let go on"}[signal]
		if told == "" {
			return fmt.Errorf("%s takes KILL, STOP or CONT, not %s", target, signal)
		}
		p.Narrator.Say(fmt.Sprintf("%s is %s", target, told))
		return p.Cluster.Disturb(p.ctx, strings.ToLower(signal), target)
	}
	m, err := p.manager(target)
	if err != nil {
		return err
	}
	return p.send(m, signal)
}

func (p *Play) send(m *manager, signal string) error {
	p.Narrator.Say(fmt.Sprintf("$ kill -%s %d    # %s", signal, m.Cmd.Process.Pid, m.name))
	return m.Cmd.Process.Signal(signals[signal])
}

func (p *Play) waitForLog(c *call) error {
	m, err := p.manager(c.args[0])
	if err != nil {
		return err
	}
	wanted := regexp.MustCompile(`(?m)^.*(?:` + c.args[1] + `).*$`)
	if c.not {
		if line := wanted.FindString(m.Log.String()); line != "" {
			return fmt.Errorf("%s has logged: %s", m.name, line)
		}
		return nil
	}
	var line string
	err = p.waitFor(m, fmt.Sprintf("%s logs %q", c.args[0], c.args[1]), func() (bool, error) {
		line = wanted.FindString(m.Log.String())
		return line != "", errors.New("its last line is " + process.LastLines(m.Log.String(), 1))
	})
	p.Narrator.Say(m.name + ": " + line)
	fmt.Fprintln(c.Stdout(), line)
	return err
}

// waitFor is wait about a manager: its log tells why it is in vain.
func (p *Play) waitFor(m *manager, what string, done func() (bool, error)) error {
	err := p.wait(what, done)
	if err != nil && !errors.Is(err, errInterrupted) {
		err = fmt.Errorf("%w\nits log ends:\n%s", err, process.LastLines(m.Log.String(), 20))
	}
	return err
}

func (p *Play) exits(c *call) error {
	m, err := p.manager(c.args[0])
	if err != nil {
		return err
	}
	return p.awaitEnd(m, argument[int](c, "CODE"))
}

func (p *Play) awaitEnd(m *manager, wanted int) error {
	err := p.waitFor(m, m.name+" has ended", func() (bool, error) { return !m.Running(), nil })
	if err != nil {
		return err
	}
	if code := m.Cmd.ProcessState.ExitCode(); code != wanted {
		return fmt.Errorf("%s has ended with exit code %d; its log ends:\n%s",
			m.name, code, process.LastLines(m.Log.String(), 20))
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

// end asks a manager to stop. kcm ends with 0 when all its loops have stopped; the original lets the signal kill it.
func (p *Play) end(c *call) error {
	m, err := p.manager(c.args[0])
	if err == nil {
		err = p.send(m, "TERM")
	}
	if err != nil {
		return err
	}
	if p.Manager.Reference && !m.own {
		return p.awaitEnd(m, -1)
	}
	return p.awaitEnd(m, 0)
}

// longestOutput is how many lines of a program's output a narrator shows.
const longestOutput = 30

// runManager runs the manager until it ends, somewhere that is not a pod.
func (p *Play) runManager(c *call) error {
	p.Narrator.Say("$ " + p.Manager.Name + " " + shellescape.QuoteCommand(c.args))
	said, err := p.runToEnd(c, func(ctx context.Context) *exec.Cmd {
		cmd := p.Manager.byItself(ctx, c.args...)
		inPod := func(variable string) bool { return strings.HasPrefix(variable, "KUBERNETES_SERVICE_") }
		cmd.Env = slices.DeleteFunc(append(cmd.Environ(), "KUBECONFIG="+c.Getenv("KUBECONFIG")), inPod)
		return cmd
	})
	code, exit := 0, (*exec.ExitError)(nil)
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if more := len(lines) - longestOutput; more > 0 {
		lines = append(lines[:longestOutput], fmt.Sprintf("… and %d more lines", more))
	}
	p.Narrator.Say(strings.Join(lines, "\n"))
	p.Narrator.Say(fmt.Sprintf("exit code %d", code))
	if wanted := map[bool]int{true: 1}[c.not]; code != wanted {
		return fmt.Errorf("it has ended with exit code %d, and not with %d", code, wanted)
	}
	return nil
}
