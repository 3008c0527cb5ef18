package options

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

var known = Controllers{
	Names: []string{"certificatesigningrequest-signing-controller", "deployment-controller", "node-ipam-controller", "node-lifecycle-controller", "replicaset-controller",
		"replicationcontroller-controller", "serviceaccount-controller"},
	DisabledByDefault: []string{"replicaset-controller"},
	Accepted: []string{"certificatesigningrequest-signing-controller", "deployment-controller", "node-ipam-controller",
		"node-lifecycle-controller", "replicaset-controller", "replicationcontroller-controller", "serviceaccount-controller",
		"statefulset-controller"},
	Aliases: map[string]string{"csrsigning": "certificatesigningrequest-signing-controller", "deployment": "deployment-controller",
		"nodeipam": "node-ipam-controller", "replicaset": "replicaset-controller", "statefulset": "statefulset-controller"},
}

func parse(t *testing.T, args ...string) (*KubeControllerManagerOptions, *pflag.FlagSet, error) {
	t.Helper()
	o := defaults(t)
	fs := pflag.NewFlagSet("kcm", pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	for _, group := range o.Flags(known).FlagSets {
		fs.AddFlagSet(group)
	}
	return o, fs, fs.Parse(args)
}

func mustParse(t *testing.T, args ...string) *KubeControllerManagerOptions {
	t.Helper()
	o, _, err := parse(t, args...)
	require.NoError(t, err)
	return o
}

func TestEveryMistakeIsReportedAtOnceWithItsFlag(t *testing.T) {
	t.Parallel()
	notAKey := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(notAKey, []byte("secret"), 0o600))
	mistakes := map[string]string{
		"--controllers=deploymnt":                       "--controllers",
		"--concurrent-rc-syncs=0":                       "--concurrent-rc-syncs=0",
		"--concurrent-replicaset-syncs=-1":              "--concurrent-replicaset-syncs=-1",
		"--concurrent-deployment-syncs=0":               "--concurrent-deployment-syncs=0",
		"--concurrent-serviceaccount-token-syncs=0":     "--concurrent-serviceaccount-token-syncs=0",
		"--service-account-private-key-file=" + notAKey: "--service-account-private-key-file",
		"--root-ca-file=/does/not/exist":                "--root-ca-file",
		"--leader-elect-renew-deadline=20s":             "--leader-elect-renew-deadline=20s",
		"--leader-elect-retry-period=30s":               "--leader-elect-retry-period=30s",
		"--leader-elect-resource-lock=endpoints":        "--leader-elect-resource-lock=endpoints",
		"--leader-elect-resource-name=":                 "--leader-elect-resource-name",
		"--kube-api-burst=0":                            "--kube-api-burst=0",
		"--min-resync-period=-1s":                       "--min-resync-period=-1s",
		"--controller-start-interval=-1s":               "--controller-start-interval=-1s",
		"--controller-shutdown-timeout=-1s":             "--controller-shutdown-timeout=-1s",
		"--secure-port=70000":                           "--secure-port 70000",
		"--logging-format=xml":                          "--logging-format",
		"--log-flush-frequency=-1s":                     "--log-flush-frequency",
		"--tls-min-version=nope":                        "--tls-min-version",
		"--tls-cipher-suites=nope":                      "--tls-cipher-suites",
		"--client-ca-file=/nope":                        "--client-ca-file",
		"--kubeconfig=/does/not/exist":                  "--kubeconfig",
	}
	var args []string
	for arg := range mistakes {
		args = append(args, arg)
	}
	err := mustParse(t, args...).Validate(known)
	require.Error(t, err)
	assert.Len(t, strings.Split(err.Error(), "\n"), len(mistakes))
	for arg, want := range mistakes {
		assert.Contains(t, err.Error(), want, "the mistake %s", arg)
		alone := mustParse(t, arg).Validate(known)
		require.Error(t, alone, arg)
		assert.Contains(t, alone.Error(), want)
	}
}

func TestElectionFlagsDoNotMatterWithoutElection(t *testing.T) {
	t.Parallel()
	o := mustParse(t, "--leader-elect=false", "--leader-elect-renew-deadline=20s")
	assert.NoError(t, o.Validate(known))
}

func TestControllersTakesNamesAliasesAndWhatOnlyTheOriginalHas(t *testing.T) {
	t.Parallel()
	o := mustParse(t, "--controllers=*,-deployment,replicaset-controller,statefulset,-statefulset-controller")
	assert.NoError(t, o.Validate(known))
}

func TestAnUnknownControllerIsAnsweredWithTheNearestName(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"deploymnt":              `"deployment"`,
		"-replicasett":           `"replicaset"`,
		"statefulst":             `"statefulset"`,
		"deployments-controller": `"deployment-controller"`,
		"foo":                    `"foo"; --help lists all`,
		"zzzzzzzzzzzzzzzzzzzzzz": `--help lists all`,
	} {
		err := mustParse(t, "--controllers="+given).Validate(known)
		require.Error(t, err, given)
		assert.Contains(t, err.Error(), want)
		assert.Contains(t, err.Error(), strings.TrimPrefix(given, "-"))
	}
}

// The flags are those that kubeadm v1.36 and kind write into the manifest of
// the static pod.
func TestTheManifestOfKubeadmIsAcceptedAndFlagsWithoutEffectAreLogged(t *testing.T) {
	t.Parallel()
	_, fs, err := parse(t,
		"--allocate-node-cidrs=true", "--authentication-kubeconfig=/etc/kubernetes/controller-manager.conf",
		"--authorization-kubeconfig=/etc/kubernetes/controller-manager.conf", "--bind-address=127.0.0.1",
		"--client-ca-file=/etc/kubernetes/pki/ca.crt", "--cluster-cidr=10.244.0.0/16", "--cluster-name=kind",
		"--cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt", "--cluster-signing-key-file=/etc/kubernetes/pki/ca.key",
		"--controllers=*,bootstrapsigner,tokencleaner", "--enable-hostpath-provisioner",
		"--kubeconfig=/etc/kubernetes/controller-manager.conf", "--leader-elect=true",
		"--requestheader-client-ca-file=/etc/kubernetes/pki/front-proxy-ca.crt", "--root-ca-file=/etc/kubernetes/pki/ca.crt",
		"--service-account-private-key-file=/etc/kubernetes/pki/sa.key", "--service-cluster-ip-range=10.96.0.0/16",
		"--use-service-account-credentials=true",
	)
	require.NoError(t, err)

	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	LogFlagsWithoutEffect(klog.NewContext(context.Background(), logger), fs)
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	for _, flag := range []string{"--cluster-name", "--enable-hostpath-provisioner"} {
		assert.Contains(t, log, `flag="`+flag+`"`)
	}
	for _, flag := range []string{"--leader-elect", "--allocate-node-cidrs", "--cluster-cidr", "--service-cluster-ip-range",
		"--cluster-signing-cert-file", "--cluster-signing-key-file"} {
		assert.NotContains(t, log, `flag="`+flag+`"`, "this flag does have an effect")
	}
}

// kubeconfigFile is for a configuration that nobody uses.
func kubeconfigFile(t *testing.T) string {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, current-context: c,
		contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}`), 0o600))
	return kubeconfig
}

func TestConfigReplacesAliases(t *testing.T) {
	t.Parallel()
	c, err := mustParse(t, "--kubeconfig="+kubeconfigFile(t), "--secure-port=0", "--controllers=*,-deployment", "--kube-api-qps=7").Config(known)
	require.NoError(t, err)
	assert.Equal(t, []string{"*", "-deployment-controller"}, c.ComponentConfig.Generic.Controllers)
	assert.Nil(t, c.SecureServing)
	assert.EqualValues(t, 7, c.Kubeconfig.QPS)
	assert.Equal(t, 10*time.Second, c.ControllerShutdownTimeout)
}
