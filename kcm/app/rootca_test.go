package app

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/cert"
)

// certificate returns one in PEM.
func certificate(t *testing.T) []byte {
	t.Helper()
	certificate, _, err := cert.GenerateSelfSignedCertKey("root", nil, nil)
	require.NoError(t, err)
	return certificate
}

// wokenLoop tells when it is woken.
type wokenLoop struct {
	*fakeLoop
	woken chan struct{}
}

func (l wokenLoop) Enqueue() { l.woken <- struct{}{} }

func TestALoopIsWokenWhenTheFileOfTheRootCAChanges(t *testing.T) {
	t.Parallel()
	path, first, second := filepath.Join(t.TempDir(), "ca.crt"), certificate(t), certificate(t)
	require.NoError(t, os.WriteFile(path, first, 0o600))
	c := testContext("*")
	c.ComponentConfig.SAController.RootCAFile = path
	ca, err := newRootCA(c, "test")
	require.NoError(t, err)
	assert.Equal(t, first, ca.current())

	ctx, cancel := context.WithCancel(t.Context())
	loop := wokenLoop{newFakeLoop(), make(chan struct{}, 10)}
	var running sync.WaitGroup
	running.Go(func() { ca.followedBy(loop).Run(ctx, 3) })
	assert.Equal(t, 3, <-loop.started)

	// As the kubelet and most tools do it: there is always a whole file of that name.
	next := path + ".next"
	require.NoError(t, os.WriteFile(next, second, 0o600))
	require.NoError(t, os.Rename(next, path))
	select {
	case <-loop.woken:
	case <-time.After(time.Minute):
		t.Fatal("the loop was not woken")
	}
	assert.Equal(t, second, ca.current())
	cancel()
	running.Wait()
}

func TestWithoutAFileTheRootCAIsThatOfTheKubeconfig(t *testing.T) {
	t.Parallel()
	ca, err := newRootCA(testContext("*"), "test")
	require.NoError(t, err)
	assert.Empty(t, ca.current(), "the kubeconfig has none")
	loop := wokenLoop{fakeLoop: newFakeLoop()}
	assert.Equal(t, loop, ca.followedBy(loop), "there is nothing to follow")
}
