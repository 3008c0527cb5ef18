// Package command_test is the lab of chapter 01: the command by itself, which
// understands its command line, says what is wrong with it, and ends.
package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/lab"
)

func TestMain(m *testing.M) { lab.Main(m) }

// kubeconfig is in order, and has no API server behind it.
const kubeconfig = "--kubeconfig=manifests/kubeconfig.yaml"

// patience is how long a run may take. All of them should end at once.
const patience = 30 * time.Second

// onlyOurs is why a step about the words of a message is for kcm alone.
const onlyOurs = "the original says it in other words"

// outcome is what a run of a program has left.
type outcome struct {
	stdout, stderr string
	code           int
}

func TestCommand(t *testing.T) {
	l := lab.WithoutCluster(t, 1)
	original, err := cluster.Binary(t.Context(), os.Stderr)
	require.NoError(t, err)

	// run runs a program until it ends, somewhere that is not a pod.
	run := func(s *lab.Step, cmd *exec.Cmd) outcome {
		s.Helper()
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Env = slices.DeleteFunc(append(os.Environ(), "KUBECONFIG=manifests/kubeconfig.yaml"), func(variable string) bool {
			return strings.HasPrefix(variable, "KUBERNETES_SERVICE_")
		})
		var exit *exec.ExitError
		if err := cmd.Run(); err != nil {
			require.ErrorAs(s, err, &exit, "run %s", cmd)
		}
		return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	}
	// quietly runs kcm, or the original, without a word about it.
	quietly := func(s *lab.Step, args ...string) outcome {
		s.Helper()
		ctx, cancel := context.WithTimeout(s.Context(), patience)
		defer cancel()
		program := l.KCM
		if lab.Reference() {
			program, args = original, append([]string{"kube-controller-manager"}, args...)
		}
		out := run(s, exec.CommandContext(ctx, program, args...))
		require.NoError(s, ctx.Err(), "%s was to end by itself", program)
		return out
	}
	name := "kcm"
	if lab.Reference() {
		name = "kube-controller-manager"
	}
	// command runs it so that one sees what it prints.
	command := func(s *lab.Step, args ...string) outcome {
		s.Helper()
		s.Say("$ %s", strings.Join(append([]string{name}, args...), " "))
		out := quietly(s, args...)
		s.Say("%s%s", out.stdout, out.stderr)
		s.Say("exit code %d", out.code)
		return out
	}

	l.Step("--help shows the flags in groups", func(s *lab.Step) {
		out := quietly(s, "--help")
		assert.Equal(s, 0, out.code)
		assert.Empty(s, out.stderr, "help that was asked for is not a complaint")
		groups := regexp.MustCompile(`(?m)^.* flags:$`).FindAllString(out.stdout, -1)
		s.Say("$ %s --help | grep ' flags:$'", name)
		s.Say("%s", strings.Join(groups, "\n"))
		ours := []string{"Debugging flags:", "Generic flags:", "Logs flags:", "Misc flags:", "Global flags:"}
		if lab.Reference() {
			assert.Subset(s, groups, ours)
			return
		}
		assert.Equal(s, ours, groups)
	})

	l.Step("Every flag has the name and the default that it has in kube-controller-manager", func(s *lab.Step) {
		s.OnlyKCM("this compares kcm with the original")
		theirs := defaults(run(s, exec.CommandContext(s.Context(), original, "kube-controller-manager", "--help")).stdout)
		ours := defaults(quietly(s, "--help").stdout)
		require.Greater(s, len(ours), 20, "flags were found in --help")
		for flag, value := range ours {
			assert.Contains(s, theirs, flag)
			assert.Equal(s, theirs[flag], value, "the default of --%s", flag)
		}
		s.Say("kcm has %d of the original's %d flags, with the same defaults: --kube-api-qps is %s in both", len(ours), len(theirs), ours["kube-api-qps"])
	})

	l.Step("The version is printed whatever else is wrong with the values", func(s *lab.Step) {
		version := "Kubernetes v1.36.3+kcm\n"
		if lab.Reference() {
			version = "Kubernetes v1.36.3\n"
		}
		for _, args := range [][]string{{"--version"}, {"--version", "--kube-api-burst=0"}} {
			assert.Equal(s, outcome{stdout: version}, command(s, args...))
		}
	})

	l.Step("A flag that does not exist comes before everything, the version and the help included", func(s *lab.Step) {
		for _, args := range [][]string{{"--kubeconfg"}, {"--version", "--nonsense"}, {"--help", "--nonsense"}} {
			out := quietly(s, args...)
			unknown := args[len(args)-1]
			assert.Equal(s, 1, out.code)
			assert.Empty(s, out.stdout, "neither the version nor the help")
			lines := strings.Split(strings.TrimSpace(out.stderr), "\n")
			s.Say("$ %s %s", name, strings.Join(args, " "))
			s.Say("%s", lines[len(lines)-1])
			s.Say("exit code %d; lines before that one: %d", out.code, len(lines)-1)
			if lab.Reference() {
				assert.Equal(s, "Error: unknown flag: "+unknown, lines[len(lines)-1])
				assert.Greater(s, len(lines), 400, "all of the help comes first")
				continue
			}
			assert.Equal(s, "kcm: unknown flag: "+unknown+"; kcm --help lists all flags\n", out.stderr)
		}
	})

	l.Step("A word too many is refused, and a switch takes its value with = only", func(s *lab.Step) {
		for _, args := range [][]string{{"start"}, {"--leader-elect", "false"}} {
			out := command(s, args...)
			assert.Equal(s, 1, out.code)
			word := args[len(args)-1]
			if lab.Reference() {
				assert.Equal(s, `Error: "kube-controller-manager" does not take any arguments, got ["`+word+`"]`+"\n", out.stderr)
				continue
			}
			assert.Equal(s, `kcm: unexpected arguments ["`+word+`"]; kcm takes flags only`+"\n", out.stderr)
		}
	})

	l.Step("Everything that is wrong is said at once, a line for each, by its flag", func(s *lab.Step) {
		s.OnlyKCM(onlyOurs + ", and a few at a time")
		out := command(s, "--kubeconfig=/nowhere/kubeconfig", "--kube-api-burst=0", "--min-resync-period=-1s",
			"--controller-start-interval=-2s", "--controller-shutdown-timeout=-3s", "--feature-gates=NoSuchGate=true", "--logging-format=xml")
		assert.Equal(s, outcome{code: 1, stderr: `kcm: --feature-gates, --emulated-version or --min-compatibility-version: unrecognized feature gate: NoSuchGate
kcm: flags for logs: --logging-format: Invalid value: "xml": Unsupported log format
kcm: --kubeconfig: open /nowhere/kubeconfig: no such file or directory
kcm: --kube-api-burst=0: must be at least 1 while --kube-api-qps is above 0
kcm: --min-resync-period=-1s: must not be negative
kcm: --controller-start-interval=-2s: must not be negative
kcm: --controller-shutdown-timeout=-3s: must not be negative
`}, out)
	})

	l.Step("Three mistakes take one round to repair, where the original takes three", func(s *lab.Step) {
		mistakes := []struct{ wrong, right, sign string }{
			{"--kube-api-burst=0", "--kube-api-burst=30", "burst"},
			{"--feature-gates=NoSuchGate=true", "--feature-gates=AllBeta=false", "NoSuchGate"},
			{"--kubeconfig=/nowhere/kubeconfig", kubeconfig, "/nowhere/kubeconfig"},
		}
		args := []string{mistakes[0].wrong, mistakes[1].wrong, mistakes[2].wrong}
		if lab.Reference() {
			args = append(args, "--secure-port=0") // it would listen to the whole world for a moment
		}
		rounds := 0
		for repaired := 0; repaired < len(mistakes); rounds++ {
			out := command(s, args...)
			require.Equal(s, 1, out.code)
			before := repaired
			for i, mistake := range mistakes {
				if args[i] == mistake.wrong && strings.Contains(out.stderr, mistake.sign) {
					args[i] = mistake.right
					repaired++
				}
			}
			require.Greater(s, repaired, before, "each round names a mistake that is there")
		}
		expected := 1
		if lab.Reference() {
			expected = 3
		}
		assert.Equal(s, expected, rounds, "rounds of repair")
	})

	l.Step("KUBECONFIG is for people: a manager wants a flag, or to be in a pod", func(s *lab.Step) {
		s.OnlyKCM(onlyOurs)
		s.Say("$ export KUBECONFIG=manifests/kubeconfig.yaml")
		out := command(s)
		assert.Equal(s, outcome{code: 1, stderr: "kcm: --kubeconfig is needed outside of a pod: unable to load in-cluster configuration, " +
			"KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined\n"}, out)
		s.Say("That it is missing cannot be seen in the values, so it is said only when they are right:")
		out = command(s, "--kube-api-burst=0")
		assert.Equal(s, outcome{code: 1, stderr: "kcm: --kube-api-burst=0: must be at least 1 while --kube-api-qps is above 0\n"}, out)
	})

	l.Step("With the right flags it says hello, asks nobody anything, and ends with 0", func(s *lab.Step) {
		s.OnlyKCM("the original goes on to control things, and asks the API server first")
		server, visits := listen(s)
		out := command(s, kubeconfig, "--master=https://"+server)
		assert.Equal(s, 0, out.code)
		assert.Empty(s, out.stdout)
		host, err := os.Hostname()
		require.NoError(s, err)
		assert.Regexp(s, `^I\d{4} [\d:.]+ +\d+ run\.go:\d+\] "Starting" version="v1\.36\.3\+kcm" identity="`+regexp.QuoteMeta(host)+
			`_[0-9a-f-]{36}" server="https://`+regexp.QuoteMeta(server)+`"\n$`, out.stderr)
		assert.Zero(s, visits(), "connections to the API server")
		s.Say("--master has overridden the kubeconfig's address. Nobody has knocked there.")

		again := quietly(s, kubeconfig, "--master=https://"+server)
		identity := regexp.MustCompile(`identity="([^"]*)"`)
		assert.NotEqual(s, identity.FindString(out.stderr), identity.FindString(again.stderr), "two processes on one host are two replicas")
	})

	l.Step("With -v=1 it logs every flag with its value; underscores have become hyphens", func(s *lab.Step) {
		s.OnlyKCM("the original goes on to control things")
		out := quietly(s, kubeconfig, "--kube_api_qps=7", "-v=1")
		assert.Equal(s, 0, out.code)
		flags := regexp.MustCompile(`(?m)^.*FLAG: --kube-api-.*$`).FindAllString(out.stderr, -1)
		s.Say("$ kcm %s --kube_api_qps=7 -v=1 2>&1 | grep 'FLAG: --kube-api'", kubeconfig)
		s.Say("%s", strings.Join(flags, "\n"))
		require.Len(s, flags, 3)
		assert.Contains(s, flags[0], `FLAG: --kube-api-burst="30"`)
		assert.Contains(s, flags[1], `FLAG: --kube-api-content-type="application/vnd.kubernetes.protobuf"`)
		assert.Contains(s, flags[2], `FLAG: --kube-api-qps="7"`)
	})

	l.Step("The log can be JSON; the line that says why it ended is text", func(s *lab.Step) {
		s.OnlyKCM("the original logs why it ended, so that it is JSON there")
		out := command(s, kubeconfig, "--logging-format=json")
		assert.Equal(s, 0, out.code)
		var line struct{ Msg, Identity string }
		require.NoError(s, json.Unmarshal([]byte(out.stderr), &line))
		assert.Equal(s, "Starting", line.Msg)
		assert.NotEmpty(s, line.Identity)

		out = command(s, "--logging-format=json")
		assert.Equal(s, 1, out.code)
		assert.Regexp(s, `(?m)^kcm: --kubeconfig is needed outside of a pod: .*\n\z`, out.stderr)
	})
}

// defaults returns the flags of a --help by their names, with the default that
// it shows; none is empty.
func defaults(help string) map[string]string {
	// The text of a flag may have more lines; the default is at the end of its last.
	head := regexp.MustCompile(`^ +(?:-\w, )?--([a-z0-9-]+)`)
	value := regexp.MustCompile(`\(default ([^()]*)\)$`)
	all := map[string]string{}
	current := ""
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\n")
		if match := head.FindStringSubmatch(line); match != nil {
			current = match[1]
			all[current] = ""
		} else if strings.TrimSpace(line) == "" {
			current = ""
		}
		if match := value.FindStringSubmatch(line); match != nil && current != "" && !strings.Contains(line, "=true|false (") {
			all[current] = match[1]
		}
	}
	return all
}

// listen returns the address of something that only counts who connects to it.
// What it counts includes everybody who came before the call.
func listen(s *lab.Step) (address string, visits func() int) {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s, err)
	s.Cleanup(func() { listener.Close() })
	accepted := make(chan string, 1024)
	go func() {
		for {
			connection, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				accepted <- connection.RemoteAddr().String()
				connection.Close()
			}
		}
	}()
	return listener.Addr().String(), func() int {
		// They are accepted in the order in which they came: when we are, so is everybody before us.
		us, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(s, err)
		defer us.Close()
		before := 0
		for {
			select {
			case who := <-accepted:
				if who == us.LocalAddr().String() {
					return before
				}
				before++
			case <-time.After(patience):
				require.Fail(s, "nobody accepts connections any more")
			}
		}
	}
}
