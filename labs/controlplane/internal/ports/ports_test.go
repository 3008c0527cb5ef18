package ports

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPickedPortsAreFreeAndDifferent(t *testing.T) {
	t.Parallel()
	picked, err := Pick(20)
	require.NoError(t, err)
	seen := map[int]bool{}
	for _, port := range picked {
		require.False(t, seen[port])
		seen[port] = true
		require.GreaterOrEqual(t, port, minPort)
		require.Less(t, port, maxPort)
	}
}

func TestATakenPortIsTold(t *testing.T) {
	t.Parallel()
	first, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer first.Close()
	_, err = net.Listen("tcp", first.Addr().String())
	require.True(t, Taken(errors.New("etcd exited with code 1; its last words:\n    "+err.Error())), "as the system says it")
	require.False(t, Taken(errors.New(strings.Repeat("connection refused", 2))))
	require.False(t, Taken(nil))
}
