package play

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

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
}

// has tells whether the manager has a controller: those of early chapters lack some.
func (m *Manager) has(controller string) bool { return slices.Contains(m.Loops, controller) }

// NewManager returns kcm, which is a program, or the original kube-controller-manager with that kcm's loops. It is to
// run on a cluster, or on none if c is nil. Variables are added to kcm's environment.
func NewManager(
	ctx context.Context, c *cluster.Cluster, reference bool, program string, variables ...string,
) (*Manager, error) {
	kcm := func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), variables...)
		return cmd
	}
	// That of an earlier chapter does not know all flags and controllers.
	help, err := kcm(ctx, "--help").Output()
	if err != nil {
		return nil, fmt.Errorf("run %s --help: %w", program, err)
	}
	var loops []string
	if found := regexp.MustCompile(`All controllers: (.+)`).FindSubmatch(help); found != nil {
		loops = strings.Split(string(found[1]), ", ")
	}
	if reference {
		binary, err := cluster.Binary(ctx, "kube-controller-manager", os.Stderr)
		return &Manager{
			Name: "kube-controller-manager", Reference: true, Loops: loops,
			byItself: func(ctx context.Context, args ...string) *exec.Cmd {
				return exec.CommandContext(ctx, binary, args...)
			},
			onCluster: func(flags ...string) *exec.Cmd { return c.Reference(context.Background(), flags...) },
		}, err
	}
	return &Manager{
		Name: "kcm", Loops: loops, byItself: kcm,
		onCluster: func(flags ...string) *exec.Cmd {
			all := append(cluster.ManagerFlags(c, cluster.KCM),
				"--use-service-account-credentials=true", "--bind-address=127.0.0.1")
			all = slices.DeleteFunc(all, func(flag string) bool {
				name, _, _ := strings.Cut(flag, "=")
				return !bytes.Contains(help, []byte(" "+name+" "))
			})
			cmd := kcm(context.Background(), append(all, flags...)...)
			cmd.SysProcAttr = process.EndingWithUs()
			return cmd
		},
	}, nil
}

// RunLoops runs all loops with one manager, until stop is called. It is an error of stop if the manager has ended
// before. Log is what it has said.
func (s *Setting) RunLoops() (log *process.Log, stop func() error, err error) {
	flags := []string{"--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=2000"}
	if s.Manager.has("node-lifecycle-controller") {
		flags = append(flags, // silence is soon noticed
			"--node-monitor-period=1s", "--node-monitor-grace-period=20s", "--node-startup-grace-period=20s")
	}
	_, p, err := s.run(s.Manager.Loops, flags...)
	if err != nil {
		return nil, nil, err
	}
	s.LoopsRun = true
	return p.Log, func() error {
		if !p.Running() {
			return fmt.Errorf("the controller manager has ended while scripts were played; its log ends:\n%s",
				process.LastLines(p.Log.String(), 20))
		}
		p.Kill()
		return nil
	}, nil
}

// run starts a manager with a choice of controllers.
func (s *Setting) run(controllers []string, flags ...string) (port string, p *process.Process, err error) {
	if port, err = process.FreePort(); err != nil {
		return "", nil, err
	}
	if s.Spectator != nil {
		flags = append(s.Spectator.Flags(), flags...)
	}
	p, err = s.Manager.Start(controllers, append([]string{"--secure-port=" + port}, flags...)...)
	return port, p, err
}

// Start starts the manager on its cluster with a choice of controllers, or with all that it has if none are named.
// Flags are added to those that it needs there, and win. It ends with the calling process at the latest.
func (m *Manager) Start(controllers []string, flags ...string) (*process.Process, error) {
	var own []string
	if len(controllers) > 0 {
		own = append(own, "--controllers="+strings.Join(controllers, ","))
	}
	return process.Start(m.onCluster(append(own, flags...)...))
}
