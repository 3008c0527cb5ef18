package scenarios

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
	"github.com/kcm-book/kcm-book/labs/process"
)

// ownManagerFlags are the flags of a scenario's own managers. Their Lease runs
// out soon. Flags of the scenario's come after them and win.
var ownManagerFlags = []string{
	"--leader-elect-lease-duration=3s",
	"--leader-elect-renew-deadline=2s",
	"--leader-elect-retry-period=250ms",
}

// harmless is a loop that disturbs no scenario when it runs twice.
const harmless = "serviceaccount-controller"

func (s *scenario) start(ts *testscript.TestScript, args []string) error {
	name := args[0]
	if s.managers[name] != nil {
		return fmt.Errorf("%s runs already", name)
	}
	controllers := harmless
	flags := append([]string{"--leader-elect-resource-namespace=" + s.namespace}, ownManagerFlags...)
	for _, flag := range args[1:] {
		// This flag would add to what was said before.
		if wanted, found := strings.CutPrefix(flag, "--controllers="); found {
			controllers = wanted
			continue
		}
		flags = append(flags, flag)
	}
	m, err := startManager(controllers, flags...)
	if err != nil {
		return err
	}
	s.managers[name] = m
	return nil
}

func (s *scenario) manager(name string) (*manager, error) {
	if m := s.managers[name]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("no manager %s was started", name)
}

var signals = map[string]syscall.Signal{
	"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
}

func (s *scenario) signal(_ *testscript.TestScript, args []string) error {
	m, err := s.manager(args[0])
	if err != nil {
		return err
	}
	signal, known := signals[args[1]]
	if !known {
		return fmt.Errorf("unknown signal %s", args[1])
	}
	return m.Cmd.Process.Signal(signal)
}

func (s *scenario) waitForLog(_ *testscript.TestScript, args []string) error {
	m, err := s.manager(args[0])
	if err != nil {
		return err
	}
	wanted, err := regexp.Compile(args[1])
	if err != nil {
		return err
	}
	return s.pollManager(m, fmt.Sprintf("%s logs %q", args[0], args[1]), func() (bool, error) {
		return wanted.MatchString(m.Log.String()), nil
	})
}

// pollManager is poll about a manager: its log tells why it waits in vain.
func (s *scenario) pollManager(m *manager, what string, done func() (bool, error)) error {
	err := s.poll(what, func(history.State) (bool, error) { return done() })
	if err != nil {
		err = fmt.Errorf("%w\nits log ends:\n%s", err, process.LastLines(m.Log.String(), 20))
	}
	return err
}

func (s *scenario) get(ts *testscript.TestScript, args []string) error {
	m, err := s.manager(args[0])
	if err != nil {
		return err
	}
	wanted := http.StatusOK
	if len(args) >= 4 {
		if wanted, err = strconv.Atoi(args[3]); err != nil {
			return err
		}
	}
	content := regexp.MustCompile("")
	if len(args) == 5 {
		if content, err = regexp.Compile("(?m)" + args[4]); err != nil {
			return err
		}
	}
	client, err := s.clientOf(args[1])
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	var body []byte
	err = s.pollManager(m, fmt.Sprintf("%s answers %s to %s with %d", args[0], args[2], args[1], wanted), func() (bool, error) {
		response, err := client.Get("https://127.0.0.1:" + m.port + args[2])
		if err != nil {
			return false, err
		}
		defer response.Body.Close()
		if body, err = io.ReadAll(response.Body); err != nil {
			return false, err
		}
		return response.StatusCode == wanted && content.Match(body), fmt.Errorf("%s: %s", response.Status, body)
	})
	ts.Stdout().Write(body)
	return err
}

// clientOf returns a client with the credentials of a user.
func (s *scenario) clientOf(user string) (*http.Client, error) {
	config := &rest.Config{}
	switch user {
	case "admin":
		config = lab.RESTConfig(cluster.Admin)
	case "account":
		accounts := kubernetes.NewForConfigOrDie(lab.RESTConfig(cluster.Admin)).CoreV1().ServiceAccounts(s.namespace)
		token, err := accounts.CreateToken(context.Background(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("ask for a token of the default ServiceAccount: %w", err)
		}
		config.BearerToken = token.Status.Token
	case "forger":
		config.BearerToken = "made-up"
	case "anonymous":
	default:
		return nil, fmt.Errorf("unknown user %s: use admin, account, forger or anonymous", user)
	}
	// The manager has made its certificate itself.
	config.TLSClientConfig.Insecure = true
	config.TLSClientConfig.CAData, config.TLSClientConfig.CAFile = nil, ""
	return rest.HTTPClientFor(config)
}

func (s *scenario) exits(_ *testscript.TestScript, args []string) error {
	m, err := s.manager(args[0])
	if err != nil {
		return err
	}
	code, ok := m.WaitForExit(patience())
	if !ok {
		return fmt.Errorf("%s has not ended within %v; its log ends:\n%s", args[0], patience(), process.LastLines(m.Log.String(), 20))
	}
	if fmt.Sprint(code) != args[1] {
		return fmt.Errorf("%s has ended with exit code %d; its log ends:\n%s", args[0], code, process.LastLines(m.Log.String(), 20))
	}
	return nil
}
