package options

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	cloudprovider "k8s.io/cloud-provider"
)

// untagged is a cloud that does not know which of its instances belong to a cluster.
type untagged struct{ cloudprovider.Interface }

func (untagged) HasClusterID() bool { return false }

// tagged is one that does.
type tagged struct{ cloudprovider.Interface }

func (tagged) HasClusterID() bool { return true }

func init() {
	cloudprovider.RegisterCloudProvider("untagged", func(io.Reader) (cloudprovider.Interface, error) { return untagged{}, nil })
	cloudprovider.RegisterCloudProvider("tagged", func(config io.Reader) (cloudprovider.Interface, error) {
		if config == nil {
			return tagged{}, nil
		}
		text, err := io.ReadAll(config)
		return tagged{}, errors.Join(err, errors.New(string(text)))
	})
}

func TestACloudThatIsNotInTheProgramIsRefused(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"--cloud-provider=":                    "",
		"--cloud-provider=external":            "",
		"--cloud-provider=tagged":              "",
		"--cloud-provider=aws":                 `--cloud-provider=aws: cloud provider "aws" was specified, but built-in cloud providers are disabled. Please set --cloud-provider=external and migrate to an external cloud provider`,
		"--cloud-config=/no/such/file":         "",
		"--cidr-allocator-type=":               "",
		"--cidr-allocator-type=RangeAllocator": "",
		"--cidr-allocator-type=CloudAllocator": "--cidr-allocator-type=CloudAllocator: must be RangeAllocator, the others were those of built-in cloud providers",
		"--external-cloud-volume-plugin=aws":   "",
		"--configure-cloud-routes=false":       "",
		"--allow-untagged-cloud":               "",
	} {
		err := mustParse(t, arg).Validate(known)
		if want == "" {
			assert.NoError(t, err, arg)
		} else {
			assert.EqualError(t, err, want)
		}
	}
	assert.NoError(t, mustParse(t, "--node-monitor-period=0s").Validate(known), "zero is no least silence")
	err := mustParse(t, "--cloud-provider=tagged", "--node-monitor-period=0s").Validate(known)
	assert.EqualError(t, err, "--node-monitor-period=0s: must be above 0")
	err = mustParse(t, "--cloud-provider=tagged", "--cloud-config=/no/such/file").Validate(known)
	assert.EqualError(t, err, "--cloud-config: open /no/such/file: no such file or directory")
}

func TestTheCloudIsTheOneThatTheFlagsName(t *testing.T) {
	t.Parallel()
	kubeconfig, file := kubeconfigFile(t), filepath.Join(t.TempDir(), "cloud.conf")
	require.NoError(t, os.WriteFile(file, []byte("what the file says"), 0o600))
	cloud := func(flags ...string) (cloudprovider.Interface, error) {
		c, err := mustParse(t, append(flags, "--kubeconfig="+kubeconfig, "--secure-port=0")...).Config(known)
		if err != nil {
			return nil, err
		}
		return c.Cloud, nil
	}
	for arg, want := range map[string]cloudprovider.Interface{"--cloud-provider=": nil, "--cloud-provider=external": nil, "--cloud-provider=tagged": tagged{}} {
		got, err := cloud(arg)
		require.NoError(t, err, arg)
		assert.Equal(t, want, got, arg)
	}
	_, err := cloud("--cloud-provider=tagged", "--cloud-config="+file)
	assert.ErrorContains(t, err, "--cloud-provider=tagged: ")
	assert.ErrorContains(t, err, "what the file says")
	_, err = cloud("--cloud-provider=untagged")
	assert.ErrorContains(t, err, "--cloud-provider=untagged: the cloud does not know which of its instances belong to this cluster")
	got, err := cloud("--cloud-provider=untagged", "--allow-untagged-cloud")
	require.NoError(t, err)
	assert.Equal(t, untagged{}, got)
}

func TestWhatIsSaidOfTheCloudIsShown(t *testing.T) {
	t.Parallel()
	c, err := mustParse(t, "--kubeconfig="+kubeconfigFile(t), "--secure-port=0", "--cloud-provider=external", "--cloud-config=cloud.conf",
		"--external-cloud-volume-plugin=aws", "--configure-cloud-routes=false", "--allow-untagged-cloud", "--cidr-allocator-type=").Config(known)
	require.NoError(t, err)
	external, err := c.ComponentConfig.External()
	require.NoError(t, err)
	shown := external.KubeCloudShared
	assert.Equal(t, "external", shown.CloudProvider.Name)
	assert.Equal(t, "cloud.conf", shown.CloudProvider.CloudConfigFile)
	assert.Equal(t, "aws", shown.ExternalCloudVolumePlugin)
	assert.False(t, *shown.ConfigureCloudRoutes)
	assert.True(t, shown.AllowUntaggedCloud)
	assert.Empty(t, shown.CIDRAllocatorType)
	assert.Equal(t, 5*time.Second, shown.NodeMonitorPeriod.Duration)
	assert.Equal(t, "kubernetes", shown.ClusterName, "what has no effect stays at the original's default")
}
