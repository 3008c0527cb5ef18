package app_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	kcmconfig "k8s.io/kube-controller-manager/config/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
	"github.com/kcm-book/kcm-book/labs/process"
)

// original runs kube-controller-manager and returns what it prints, and kcm
// the same of kcm.
func original(t *testing.T, flags ...string) string {
	t.Helper()
	clustertest.SkipIfShort(t)
	path, err := cluster.Binary(t.Context(), "kube-controller-manager", t.Output())
	require.NoError(t, err)
	return output(path, flags...)
}

func ours(t *testing.T, flags ...string) string {
	t.Helper()
	clustertest.SkipIfShort(t)
	path, err := kcm()
	require.NoError(t, err)
	return output(path, flags...)
}

// output returns all that a command prints; it may fail.
func output(path string, args ...string) string {
	out, _ := exec.Command(path, args...).CombinedOutput()
	return string(out)
}

// helpFlag is what --help says of a flag.
type helpFlag struct{ group, word, value string }

var (
	groupInHelp   = regexp.MustCompile(`^(\S.*) flags:$`)
	flagInHelp    = regexp.MustCompile(`^ +(?:-\w, )?--([\w-]+)(?: (\S+))?(?:   |$)`)
	defaultInHelp = regexp.MustCompile(`\(default (.*)\)$`)
)

// flagsIn returns the flags that --help lists, and in what order the groups are.
func flagsIn(help string) (flags map[string]helpFlag, groups []string) {
	flags = map[string]helpFlag{}
	name := ""
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\n")
		if match := groupInHelp.FindStringSubmatch(line); match != nil {
			groups = append(groups, match[1])
		} else if match := flagInHelp.FindStringSubmatch(line); match != nil {
			name = match[1]
			flags[name] = helpFlag{group: groups[len(groups)-1], word: match[2]}
		}
		if match := defaultInHelp.FindStringSubmatch(line); match != nil && name != "" {
			flag := flags[name]
			flag.value = match[1] // in the last line of what is said of the flag
			flags[name] = flag
		}
	}
	return flags, groups
}

func TestHelpListsTheFlagsOfTheOriginal(t *testing.T) {
	t.Parallel()
	want, order := flagsIn(original(t, "--help"))
	got, groups := flagsIn(ours(t, "--help"))
	require.Greater(t, len(want), 100)
	assert.Equal(t, order, groups)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		assert.Equal(t, want[name], got[name], "--%s", name)
	}
	delete(got, "crash-on-panic") // it restores what the original does
	for _, name := range slices.Sorted(maps.Keys(got)) {
		assert.Contains(t, want, name, "the original has no --%s", name)
	}
}

// matches returns what a pattern finds, sorted and each once.
func matches(pattern, text string) []string {
	found := regexp.MustCompile(pattern).FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

func TestHelpListsTheGatesOfTheOriginal(t *testing.T) {
	t.Parallel()
	const gate = `kube:\w+=true\|false \(\w+ - default=\w+\)`
	want := matches(gate, original(t, "--help"))
	require.Greater(t, len(want), 100)
	assert.Equal(t, want, matches(gate, ours(t, "--help")))
}

func TestEveryGateIsAsSettledAndAsSetAsInTheOriginal(t *testing.T) {
	t.Parallel()
	for _, emulated := range []string{"1.33", "1.36"} {
		t.Run(emulated, func(t *testing.T) {
			t.Parallel()
			flags := []string{"--emulated-version=" + emulated, "--controllers=serviceaccount-controller", "--leader-elect=false"}
			want := start(t, "unused", flags...).gates(t)
			require.Greater(t, len(want), 100)
			assert.Equal(t, startOriginal(t, flags...).gates(t), want)
		})
	}
}

// gates returns what the metrics say of feature gates: name, stage and whether
// it is on.
func (r *replica) gates(t *testing.T) []string {
	t.Helper()
	return matches(`kubernetes_feature_enabled\{.*`, r.served(t, "/metrics"))
}

// served waits until the manager serves path to the admin, and returns what.
func (r *replica) served(t *testing.T, path string) (body string) {
	t.Helper()
	clustertest.Eventually(t, path+" is served", func(context.Context) (err error) {
		var code int
		if code, body, err = r.ask(t, http.MethodGet, path, nil); err == nil && code != http.StatusOK {
			err = errors.New(body)
		}
		return err
	})
	return body
}

// Both get the same flags. All that they do not name is at its default.
func TestConfigzShowsAllThatTheOriginalShows(t *testing.T) {
	t.Parallel()
	flags := []string{"--controllers=serviceaccount-controller", "--leader-elect=false"}
	want := startOriginal(t, flags...).configurations(t)
	require.Contains(t, want, kcmconfig.GroupName)

	port := freePort(t)
	flags = slices.Concat(cluster.ManagerFlags(clustertest.Cluster(t), cluster.Reference), flags,
		[]string{"--use-service-account-credentials", "--bind-address=127.0.0.1", "--secure-port=" + port})
	assert.Equal(t, want, run(t, port, flags...).configurations(t))
}

// configurations returns what /configz shows, but for an order that the
// original leaves to chance.
func (r *replica) configurations(t *testing.T) (shown map[string]*kcmconfig.KubeControllerManagerConfiguration) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict([]byte(r.served(t, "/configz")), &shown))
	for _, c := range shown {
		slices.SortFunc(c.GarbageCollectorController.GCIgnoredResources, func(a, b kcmconfig.GroupResource) int {
			return strings.Compare(a.Group, b.Group)
		})
	}
	return shown
}

func startOriginal(t *testing.T, flags ...string) *replica {
	t.Helper()
	port := freePort(t)
	p, err := process.Start(clustertest.Cluster(t).Reference(t.Context(), append(flags, "--secure-port="+port)...))
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log of kube-controller-manager on port %s:\n%s", port, p.Log)
		}
	})
	return &replica{p, port}
}

func TestTheSameGatesAreLockedAsInTheOriginal(t *testing.T) {
	t.Parallel()
	var opposites []string
	for name, spec := range feature.DefaultMutableFeatureGate.GetAll() {
		opposites = append(opposites, fmt.Sprintf("%s=%t", name, !spec.Default))
	}
	for _, emulated := range []string{"1.33", "1.36"} {
		flags := []string{"--emulated-version=" + emulated, "--feature-gates=" + strings.Join(opposites, ",")}
		const refused = `cannot set feature gate \w+ to \w+, feature is (locked to \w+|PreAlpha)`
		want := matches(refused, original(t, flags...))
		require.Greater(t, len(want), 50)
		assert.Equal(t, want, matches(refused, ours(t, flags...)), emulated)
	}
}

func TestTheSameGatesDependOnEachOtherAsInTheOriginal(t *testing.T) {
	t.Parallel()
	var gates []string
	for name, spec := range feature.DefaultMutableFeatureGate.GetAll() {
		if spec.PreRelease == featuregate.Alpha && !spec.LockToDefault {
			gates = append(gates, fmt.Sprintf("%s=true", name))
		} else if spec.PreRelease == featuregate.Beta && !spec.LockToDefault && name != "AllBeta" {
			gates = append(gates, fmt.Sprintf("%s=false", name))
		}
	}
	flag := "--feature-gates=" + strings.Join(gates, ",")
	const refused = `\w+ is enabled, but depends on features that are disabled: \[[\w ]+\]`
	want := matches(refused, original(t, flag))
	require.NotEmpty(t, want)
	assert.Equal(t, want, matches(refused, ours(t, flag)))
}

// The flags are those that kubeadm v1.36 and kind write into the manifest of
// the static pod.
func TestTheManifestOfKubeadmAndEveryFlagOfTheOriginalStartKCM(t *testing.T) {
	t.Parallel()
	c := clustertest.Cluster(t)
	kubeconfig, ca := c.Kubeconfigs[cluster.KCM], c.RootCA
	kubeadm := []string{
		"--allocate-node-cidrs=true",
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--client-ca-file=" + ca,
		"--cluster-cidr=10.244.0.0/16",
		"--cluster-name=kind",
		"--cluster-signing-cert-file=" + ca,
		"--cluster-signing-key-file=" + filepath.Join(c.Dir, "pki", "ca.key"),
		"--controllers=*,bootstrapsigner,tokencleaner",
		"--enable-hostpath-provisioner=true",
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=true",
		"--requestheader-client-ca-file=" + ca,
		"--root-ca-file=" + ca,
		"--service-account-private-key-file=" + c.ServiceAccountKey,
		"--service-cluster-ip-range=10.96.0.0/16",
		"--use-service-account-credentials=true",
	}
	port := freePort(t)
	args := slices.Concat(everyFlagAtItsDefault(original(t, "--help")), kubeadm, []string{"--secure-port=" + port, "--leader-elect-resource-name=kubeadm"})
	r := run(t, port, args...)
	r.waitUntilLeading(t)
	code, body := r.get(t, "/healthz")
	assert.Equal(t, http.StatusOK, code, body)

	log := r.Log.String()
	for _, flag := range []string{"cluster-name", "enable-hostpath-provisioner"} {
		assert.Equal(t, 1, strings.Count(log, `"Flag has no effect yet: kcm does not have what it is for" flag="--`+flag+`"`), flag)
	}
	for _, flag := range []string{"leader-elect", "allocate-node-cidrs", "cluster-cidr", "service-cluster-ip-range",
		"cluster-signing-cert-file", "cluster-signing-key-file"} {
		assert.NotContains(t, log, `what it is for" flag="--`+flag+`"`, "this flag does have an effect")
	}
}

// everyFlagAtItsDefault sets each flag that --help lists to the default that it
// gives, but for those that end the program, and each gate to its default.
func everyFlagAtItsDefault(help string) []string {
	flags, _ := flagsIn(help)
	var args []string
	for name, flag := range flags {
		value := strings.Trim(flag.value, `"[]`)
		switch {
		case name == "help" || name == "version":
			continue
		case value == "" && flag.word == "": // a switch that is off
			value = "false"
		case value == "" && slices.Contains([]string{"int", "int32", "float", "float32", "Level", "duration", "quantity"}, flag.word):
			value = "0"
		case value == "" && slices.Contains([]string{"strings", "stringToString", "int32Slice", "namedCertKey", "pattern=N,..."}, flag.word):
			continue // an empty list cannot be said
		}
		args = append(args, "--"+name+"="+value)
	}
	gate := regexp.MustCompile(`(kube:\w+)=true\|false \(\w+ - default=(\w+)\)`)
	for _, match := range gate.FindAllStringSubmatch(help, -1) {
		args = append(args, "--feature-gates="+match[1]+"="+match[2])
	}
	return args
}
