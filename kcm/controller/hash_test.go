package controller

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The expected values were computed by ComputeHash of
// k8s.io/kubernetes/pkg/controller, v1.36.3.
func TestTheHashIsTheOriginals(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/templates.json")
	require.NoError(t, err)
	var templates []corev1.PodTemplateSpec
	require.NoError(t, yaml.Unmarshal(content, &templates))

	collisions := []*int32{nil, new(int32(0)), new(int32(1)), new(int32(70000))}
	for i, hashes := range [][]string{
		{"6499c7d74", "7df859cc46", "55b9d96d7f", "6849575748"},
		{"74dfbbccd8", "6976d56c88", "84ff8c95cc", "5487cdb78b"},
		{"7b748c4d4f", "7c65b49749", "6598f86dc6", "86f78d6cf"},
	} {
		for j, want := range hashes {
			assert.Equal(t, want, PodTemplateHash(templates[i], collisions[j]), "template %d, collisions %d", i, j)
		}
	}
}
