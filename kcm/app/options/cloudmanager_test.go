package options

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	cliflag "k8s.io/component-base/cli/flag"
)

var cloudLoops = Controllers{
	Names:    []string{"cloud-node-lifecycle-controller"},
	Accepted: []string{"cloud-node-lifecycle-controller"},
	Aliases:  map[string]string{"cloud-node-lifecycle": "cloud-node-lifecycle-controller"},
}

func TestTheManagerOfACloud(t *testing.T) {
	t.Parallel()
	parsed := func(t *testing.T, args ...string) (*KubeControllerManagerOptions, *pflag.FlagSet, cliflag.NamedFlagSets) {
		t.Helper()
		require.NoError(t, registered())
		o, err := NewCloudManagerOptions()
		require.NoError(t, err)
		groups, fs := o.Flags(cloudLoops), pflag.NewFlagSet("cloud", pflag.ContinueOnError)
		for _, name := range groups.Order {
			fs.AddFlagSet(groups.FlagSet(name))
		}
		require.NoError(t, fs.Parse(args))
		return o, fs, groups
	}
	t.Run("it has a name, a Lease and a port of its own", func(t *testing.T) {
		t.Parallel()
		o, _, _ := parsed(t, "--kubeconfig="+kubeconfigFile(t), "--secure-port=0", "--cloud-provider=tagged")
		require.NoError(t, o.Validate(cloudLoops))
		c, err := o.Config(cloudLoops)
		require.NoError(t, err)
		assert.Equal(t, "cloud-controller-manager", c.Name)
		assert.Equal(t, "cloud-controller-manager", c.ComponentConfig.Generic.LeaderElection.ResourceName)
		assert.Equal(t, "cloud-controller-manager", c.InformerName)
		assert.Equal(t, tagged{}, c.Cloud)
	})
	t.Run("its flags are about what it has", func(t *testing.T) {
		t.Parallel()
		_, fs, groups := parsed(t)
		for _, flag := range []string{"cloud-provider", "cloud-config", "node-monitor-period", "leader-elect", "enable-leader-migration", "kubeconfig", "controllers", "use-service-account-credentials"} {
			assert.NotNil(t, fs.Lookup(flag), flag)
		}
		for _, flag := range []string{"concurrent-deployment-syncs", "root-ca-file", "cluster-cidr", "concurrent-job-syncs"} {
			assert.Nil(t, fs.Lookup(flag), flag)
		}
		assert.NotContains(t, groups.Order, "deployment-controller")
		assert.Equal(t, "10258", fs.Lookup("secure-port").DefValue)
	})
	t.Run("it does not run without its cloud", func(t *testing.T) {
		t.Parallel()
		for arg, want := range map[string]string{
			"--cloud-provider=":         "--cloud-provider=: must name the cloud",
			"--cloud-provider=external": "--cloud-provider=external: must name the cloud",
			"--cloud-provider=aws":      `--cloud-provider=aws: cloud provider "aws" was specified`,
		} {
			o, _, _ := parsed(t, arg)
			assert.ErrorContains(t, o.Validate(cloudLoops), want)
		}
	})
}
