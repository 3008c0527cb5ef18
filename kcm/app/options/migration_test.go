package options

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	cmconfig "k8s.io/controller-manager/config"
)

// migrationFile writes a LeaderMigrationConfiguration of a version, and returns the flags that name it.
func migrationFile(t *testing.T, version, content string) (file string, flags []string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "migration.yaml")
	content = "apiVersion: controllermanager.config.k8s.io/" + version + "\nkind: LeaderMigrationConfiguration\n" + content
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return file, []string{"--enable-leader-migration", "--leader-migration-config=" + file}
}

func TestEachMistakeInTheFileOfTheMigrationGetsALine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ version, content, want string }{
		"it is right":            {"v1", "leaderName: moving\ncontrollerLeaders: [{name: deployment-controller, component: kube-controller-manager}, {name: other, component: '*'}]", ""},
		"it says nothing":        {"v1", "", "--leader-migration-config=FILE: leaderName: Required value: leaderName must be set for LeaderMigrationConfiguration"},
		"an unknown lock":        {"v1alpha1", "leaderName: moving\nresourceLock: paper", "--leader-migration-config=FILE: resourceLock: Invalid value: \"paper\": resource Lock must be one of 'leases' or 'endpoints'"},
		"a lock that is no more": {"v1beta1", "leaderName: moving\nresourceLock: endpoints", "--leader-migration-config=FILE: resourceLock: Invalid value: \"endpoints\": must be leases"},
		"the main Lease":         {"v1", "leaderName: kube-controller-manager", "--leader-migration-config=FILE: leaderName: Invalid value: \"kube-controller-manager\": must not be that of --leader-elect-resource-name, or one Lease would count for two"},
		"several at once": {"v1", "leaderName: moving\ncontrollerLeaders: [{name: a}, {component: b}]",
			"--leader-migration-config=FILE: controllerLeaders[0].component: Required value\n--leader-migration-config=FILE: controllerLeaders[1].name: Required value"},
		"a loop under two of its names": {"v1", "leaderName: moving\ncontrollerLeaders: [{name: deployment, component: a}, {name: deployment-controller, component: b}]",
			"--leader-migration-config=FILE: controllerLeaders[1].name: Duplicate value: \"deployment-controller\""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, flags := migrationFile(t, test.version, test.content)
			err := mustParse(t, flags...).Validate(known)
			if test.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.EqualError(t, err, strings.ReplaceAll(test.want, "FILE", file))
		})
	}
}

func TestAFileOfTheMigrationThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	_, flags := migrationFile(t, "v2", "leaderName: moving")
	assert.ErrorContains(t, mustParse(t, flags...).Validate(known), "v2")
	_, flags = migrationFile(t, "v1", "leaderName: moving\nleaders: []")
	assert.ErrorContains(t, mustParse(t, flags...).Validate(known), `unknown field "leaders"`)
	assert.ErrorContains(t, mustParse(t, "--enable-leader-migration", "--leader-migration-config=/no/such/file").Validate(known), "--leader-migration-config=/no/such/file: ")
	assert.NoError(t, mustParse(t, "--leader-migration-config=/no/such/file").Validate(known), "nothing migrates")
}

func TestWhatMigratesIsInTheConfiguration(t *testing.T) {
	t.Parallel()
	kubeconfig := kubeconfigFile(t)
	configured := func(flags ...string) cmconfig.GenericControllerManagerConfiguration {
		c, err := mustParse(t, append(flags, "--kubeconfig="+kubeconfig, "--secure-port=0")...).Config(known)
		require.NoError(t, err)
		return c.ComponentConfig.Generic
	}
	assert.False(t, configured().LeaderMigrationEnabled)

	standard := configured("--enable-leader-migration")
	assert.True(t, standard.LeaderMigrationEnabled)
	assert.Equal(t, "cloud-provider-extraction-migration", standard.LeaderMigration.LeaderName)
	assert.Contains(t, standard.LeaderMigration.ControllerLeaders, cmconfig.ControllerLeaderConfiguration{Name: "cloud-node-lifecycle-controller", Component: "*"})

	_, flags := migrationFile(t, "v1", "leaderName: moving\ncontrollerLeaders: [{name: deployment, component: a}, {name: stranger, component: '*'}]")
	given := configured(flags...).LeaderMigration
	assert.Equal(t, []cmconfig.ControllerLeaderConfiguration{{Name: "deployment-controller", Component: "a"}, {Name: "stranger", Component: "*"}},
		given.ControllerLeaders, "a former name stands for the name")
}
