package options

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRangesThatTheLoopCouldNotBeginWithAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	const none = "--cluster-cidr=: "
	for _, test := range []struct{ what, args, want string }{
		{"without the switch, no range is looked at", "--cluster-cidr=nonsense", ""},
		{"there has to be a range to cut", "--allocate-node-cidrs", none},
		{"one is enough", "--allocate-node-cidrs --cluster-cidr=10.9.0.0/20", ""},
		{"pieces are no larger than the whole", "--allocate-node-cidrs --cluster-cidr=10.9.0.0/20 --node-cidr-mask-size=19",
			"--cluster-cidr=10.9.0.0/20: --node-cidr-mask-size may be 20 to 32 for it, and is 19"},
		{"there may be one of each family", "--allocate-node-cidrs --cluster-cidr=10.9.0.0/20,fd00::/56", ""},
		{"Services may have two", "--allocate-node-cidrs --cluster-cidr=10.9.0.0/20 " +
			"--service-cluster-ip-range=10.9.0.0/24,fd00::/112", ""},
		{"Services have no third, whoever asks", "--service-cluster-ip-range=a,b,c",
			"--service-cluster-ip-range=a,b,c: must not be more than two"},
		{"the loop is off", "--allocate-node-cidrs --controllers=*,-node-ipam-controller", ""},
		{"the loop is off by its former name", "--allocate-node-cidrs --controllers=*,-nodeipam", ""},
		{"another one is on", "--allocate-node-cidrs --controllers=deployment", ""},
		{"the loop is on by its former name", "--allocate-node-cidrs --controllers=nodeipam", none},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			err := mustParse(t, strings.Fields(test.args)...).Validate(known)
			if test.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, test.want)
			}
		})
	}
	without := known
	without.Names = []string{"deployment-controller"}
	o := mustParse(t, "--allocate-node-cidrs")
	assert.NoError(t, o.Validate(without), "a program without the loop")
}

func TestRangesOfNodesAreShownAsTheFlagsSay(t *testing.T) {
	t.Parallel()
	c, err := mustParse(t, "--kubeconfig="+kubeconfigFile(t), "--secure-port=0", "--allocate-node-cidrs",
		"--cluster-cidr=10.9.0.0/20,fd00::/56", "--node-cidr-mask-size-ipv6=60",
		"--service-cluster-ip-range=10.96.0.0/16,fd01::/112", "--node-eviction-rate=0.2").Config(known)
	require.NoError(t, err)
	shown, err := c.ComponentConfig.External()
	require.NoError(t, err)
	assert.True(t, shown.KubeCloudShared.AllocateNodeCIDRs)
	assert.Equal(t, "10.9.0.0/20,fd00::/56", shown.KubeCloudShared.ClusterCIDR)
	assert.Equal(t, "10.96.0.0/16", shown.NodeIPAMController.ServiceCIDR)
	assert.Equal(t, "fd01::/112", shown.NodeIPAMController.SecondaryServiceCIDR)
	assert.EqualValues(t, 60, shown.NodeIPAMController.NodeCIDRMaskSizeIPv6)
	assert.EqualValues(t, float32(0.2), shown.NodeLifecycleController.NodeEvictionRate)
}
