package cloud

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// write writes the file of a cloud.
func write(t *testing.T, file, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
}

func node(name, id string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id}}
}

func TestTheCloudIsWhatStandsInTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cloud.yaml")
	write(t, file, "clusterID: lab\nmachines: {a: running, b: shut down}")
	cloud, err := cloudprovider.InitCloudProvider(Name, file)
	require.NoError(t, err)
	assert.True(t, cloud.HasClusterID())
	machines, ok := cloud.InstancesV2()
	require.True(t, ok)

	type answers struct{ exists, shut bool }
	ask := func(node *corev1.Node) answers {
		t.Helper()
		exists, err := machines.InstanceExists(t.Context(), node)
		require.NoError(t, err)
		shut, err := machines.InstanceShutdown(t.Context(), node)
		require.NoError(t, err)
		return answers{exists, shut}
	}
	assert.Equal(t, answers{true, false}, ask(node("a", "")))
	assert.Equal(t, answers{true, true}, ask(node("b", "")))
	assert.Equal(t, answers{false, false}, ask(node("c", "")))
	assert.Equal(t, answers{true, true}, ask(node("c", "lab://b")), "the ID says which machine it is")
	assert.Equal(t, answers{true, false}, ask(node("a", "kwok://b")), "an ID of another cloud says nothing")
	metadata, err := machines.InstanceMetadata(t.Context(), node("a", ""))
	require.NoError(t, err)
	assert.Equal(t, "lab://a", metadata.ProviderID)
	_, err = machines.InstanceMetadata(t.Context(), node("c", ""))
	assert.ErrorIs(t, err, cloudprovider.InstanceNotFound)

	write(t, file, "machines: {b: running}")
	assert.Equal(t, answers{false, false}, ask(node("a", "")), "it has gone meanwhile")
	assert.Equal(t, answers{true, false}, ask(node("b", "")))
	assert.False(t, cloud.HasClusterID())
}

func TestWithoutAnAnswerNothingIsSaidToBeGone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ content, want string }{
		"it fails":               {"machines: {}\nerror: out of order", "out of order"},
		"it is being written":    {"", "it does not say which machines there are"},
		"it has a word too many": {"machines: {}\ncolour: blue", `unknown field "colour"`},
		"it has no such state":   {"machines: {a: asleep}", `machine a is "asleep"; it can be "running" or "shut down"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "cloud.yaml")
			write(t, file, test.content)
			_, err := lab{file}.InstanceExists(t.Context(), node("a", ""))
			assert.ErrorContains(t, err, test.want)
		})
	}
	_, err := lab{"/no/such/file"}.InstanceExists(t.Context(), node("a", ""))
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = cloudprovider.InitCloudProvider(Name, "")
	assert.ErrorContains(t, err, "it needs a file")
}

func TestASlowAnswerTakesItsTimeOrEndsWithTheQuestion(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cloud.yaml")
	write(t, file, "machines: {a: running}\ndelay: 3s")
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		exists, err := lab{file}.InstanceExists(t.Context(), node("a", ""))
		require.NoError(t, err)
		assert.True(t, exists)
		assert.Equal(t, 3*time.Second, time.Since(begin))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = lab{file}.InstanceExists(ctx, node("a", ""))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
