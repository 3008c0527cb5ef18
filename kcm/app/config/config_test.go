package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// complete tells how a replica is called of which the flags say nothing.
func complete(t *testing.T, c *Config) string {
	t.Helper()
	completed, err := c.Complete()
	require.NoError(t, err)
	require.NotNil(t, completed.completedConfig, "Complete returned a CompletedConfig that holds nothing")
	return completed.Identity
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	require.NoError(t, err)

	t.Run("a name that was given is kept", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "blue", complete(t, &Config{Identity: "blue"}))
	})
	t.Run("a name that is made up begins with the name of the host", func(t *testing.T) {
		t.Parallel()
		name := complete(t, &Config{})
		assert.Equal(t, host+"_", name[:min(len(name), len(host)+1)], "the beginning of %q", name)
	})
	t.Run("two replicas on one host have different names", func(t *testing.T) {
		t.Parallel()
		one, other := complete(t, &Config{}), complete(t, &Config{})
		assert.NotEqual(t, one, other, "both replicas have the same name: each would take the other's Lease for its own")
	})
	t.Run("what follows the name of the host is random", func(t *testing.T) {
		t.Parallel()
		one, other := complete(t, &Config{}), complete(t, &Config{})
		one, other = strings.TrimPrefix(one, host), strings.TrimPrefix(other, host)
		same := 0
		for i := range min(len(one), len(other)) {
			if one[i] == other[i] {
				same++
			}
		}
		// Of 32 random hexadecimal digits two are the same by chance.
		assert.Less(t, same, len(one)/2, "two replicas that start at the same time are called …%s and …%s", one, other)
	})
	t.Run("a name that was made up stays when it is completed again", func(t *testing.T) {
		t.Parallel()
		c := &Config{}
		assert.Equal(t, complete(t, c), complete(t, c))
	})
	t.Run("everything else is as it was", func(t *testing.T) {
		t.Parallel()
		c := &Config{ControllerShutdownTimeout: 7 * time.Second}
		completed, err := c.Complete()
		require.NoError(t, err)
		require.NotNil(t, completed.completedConfig, "Complete returned a CompletedConfig that holds nothing")
		assert.Equal(t, 7*time.Second, completed.ControllerShutdownTimeout, "how long controllers may take to stop")
	})
}
