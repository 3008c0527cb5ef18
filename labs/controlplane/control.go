package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kcm-book/kcm-book/labs/controlplane/internal/directory"
	"github.com/kcm-book/kcm-book/labs/controlplane/internal/supervised"
)

// How long the supervisor may take to answer, and how much longer when it restarts a component. It is quick, unless it is
// frozen itself.
const (
	answerTimeout  = 10 * time.Second
	restartTimeout = startTimeout + answerTimeout
)

// fault is something that can be done to a component.
type fault struct {
	name, help string
	timeout    time.Duration
	do         func(ctx context.Context, s *supervisor, component string) error
}

var faults = []fault{
	{"kill", "Kill a component with SIGKILL; it stays dead until it is restarted", answerTimeout, func(_ context.Context, s *supervisor, name string) error {
		return s.processes[name].Kill()
	}},
	{"stop", "Freeze a component with SIGSTOP", answerTimeout, func(_ context.Context, s *supervisor, name string) error {
		return s.processes[name].Signal(syscall.SIGSTOP)
	}},
	{"cont", "Let a frozen component go on with SIGCONT", answerTimeout, func(_ context.Context, s *supervisor, name string) error {
		return s.processes[name].Signal(syscall.SIGCONT)
	}},
	{"restart", "End a component if it runs, start it again and wait until it is ready", restartTimeout, func(ctx context.Context, s *supervisor, name string) error {
		return s.restart(ctx, name)
	}},
}

var errStarting = errors.New("the cluster is still starting: wait until 'bin/labcluster up' returns")

// serveControl serves the commands of other labcluster processes on a socket in the cluster's directory, which only the
// owner can enter, until the returned function is called. The process moves there, because a socket's path must be short
// and that of the directory may not be.
func (s *supervisor) serveControl(down func()) (end func(), err error) {
	if err := os.Chdir(s.cluster.Dir); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", directory.ControlSocket)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		if !s.up.Load() {
			answer(w, nil, errStarting)
			return
		}
		answer(w, s.status(), nil)
	})
	mux.HandleFunc("POST /down", func(w http.ResponseWriter, _ *http.Request) {
		s.log.Print("asked to end the cluster")
		answer(w, nil, nil)
		down()
	})
	for _, f := range faults {
		mux.HandleFunc("POST /"+f.name+"/{component}", func(w http.ResponseWriter, r *http.Request) {
			component := r.PathValue("component")
			s.log.Printf("asked to %s %s", f.name, component)
			if !s.up.Load() {
				answer(w, nil, errStarting)
				return
			}
			answer(w, nil, f.do(r.Context(), s, component))
		})
	}
	server := &http.Server{Handler: mux, ErrorLog: s.log}
	go server.Serve(listener)
	return func() {
		// The answer to "down" is to arrive. A restart that hangs is not waited for.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
	}, nil
}

// status lists the supervisor and its components.
func (s *supervisor) status() []supervised.Status {
	all := []supervised.Status{supervised.Self(supervisorName)}
	for _, name := range componentNames {
		all = append(all, s.processes[name].Status())
	}
	return all
}

type controlAnswer struct {
	Error    string              `json:"error,omitempty"`
	Statuses []supervised.Status `json:"statuses,omitempty"`
}

func answer(w http.ResponseWriter, statuses []supervised.Status, err error) {
	a := controlAnswer{Statuses: statuses}
	if err != nil {
		a.Error = err.Error()
	}
	_ = json.NewEncoder(w).Encode(a) // a client that is gone needs no answer
}

// errDead says that the supervisor of a cluster is gone.
type errDead struct{ dir string }

func (e errDead) Error() string {
	return fmt.Sprintf("the cluster in %s no longer runs: remove it with 'bin/labcluster down --dir %s'", e.dir, e.dir)
}

// openRunning reads the cluster in dir and refuses one that does not run.
func openRunning(dir string) (cluster, error) {
	c, err := directory.Open(dir)
	if err != nil {
		return cluster{}, err
	}
	running, err := directory.IsLocked(c.Dir)
	if err == nil && !running {
		err = errDead{c.Dir}
	}
	return cluster{c}, err
}

// ask sends a command to the cluster's supervisor.
func (c cluster) ask(method, path string, timeout time.Duration) ([]supervised.Status, error) {
	if err := os.Chdir(c.Dir); err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", directory.ControlSocket)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: timeout}
	request, err := http.NewRequest(method, "http://supervisor"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the supervisor of the cluster in %s (pid %d) does not answer (%w): end it with 'kill -9 %d', then 'bin/labcluster down --dir %s'", c.Dir, c.Pids[supervisorName], rootCause(err), c.Pids[supervisorName], c.Dir)
	}
	defer response.Body.Close()
	var a controlAnswer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		return nil, fmt.Errorf("the supervisor's answer: %w", err)
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	return a.Statuses, nil
}

func rootCause(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

// checkComponent refuses a name that is no component's.
func checkComponent(name string) error {
	if slices.Contains(componentNames, name) {
		return nil
	}
	return fmt.Errorf("no component %q: it is one of %s", name, strings.Join(componentNames, ", "))
}
