package options

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// registered makes the first options by themselves: they register in a table of
// the process, and two that do so at the same time fail.
var registered = sync.OnceValue(func() error {
	_, err := NewKubeControllerManagerOptions()
	return err
})

// defaults returns options of which nobody has said anything.
func defaults(t *testing.T) *KubeControllerManagerOptions {
	t.Helper()
	require.NoError(t, registered())
	o, err := NewKubeControllerManagerOptions()
	require.NoError(t, err)
	return o
}
