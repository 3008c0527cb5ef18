package faults_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
	"github.com/kcm-book/kcm-book/labs/faults"
)

// broken is a kcm with a mistake, and the run that is to show it.
type broken struct {
	name, file, right, wrong string
	run, about               string
}

var brokenManagers = []broken{
	{"a new ReplicaSet grows to its full size at once",
		"kcm/controller/deployment/rolling.go", "return min(now+room, *d.Spec.Replicas)",
		"_ = min(now, room); return *d.Spec.Replicas",
		"rollout/none", "surge"},
	{"a rollout takes the pods of all nodes at once",
		"kcm/controller/daemon/rolling.go", "room := max(maxUnavailable-unavailable, 0)",
		"room := max(maxUnavailable-unavailable, len(working))",
		"daemons/none", "bare"},
	{"a pod that is going uses nothing of a quota",
		"kcm/controller/resourcequota/pods.go", "|| !at.IsZero() && now.After(at)",
		"|| pod.DeletionTimestamp != nil || !at.IsZero() && now.After(at)",
		"quota/none", "above-quota"},
	{"what fails is not tried again",
		"kcm/controller/loop.go", "case l.MaxRetries == RetryForever:", "case l.MaxRetries == RetryForever && false:",
		"accounts/refuse-500/1", "stuck"},
	{"what a policy refuses is taken for gone",
		"kcm/controller/gone.go", "return apierrors.IsInvalid(err) &&", "return apierrors.IsInvalid(err) ||",
		"finished/policy-422/1", "stuck"},
	{"what fails is tried three times more",
		"kcm/controller/loop.go", "case l.MaxRetries == RetryForever:",
		"case l.MaxRetries == RetryForever && l.queue.NumRequeues(key) < 3:",
		"finished/policy-500/1", "stuck"},
	{"a signature that was refused is left to the next change",
		"kcm/controller/bootstrapsigner/controller.go",
		`return fmt.Errorf("sign config map %s: %w", klog.KObj(plan.update), err)`,
		`klog.FromContext(ctx).Error(err, fmt.Sprint("cluster-info could not be signed")); return nil`,
		"signed/refuse-409/1", "stuck"},
}

// build builds the manager.
func (b broken) build(t *testing.T) (program string) {
	t.Helper()
	root, err := cluster.Root()
	require.NoError(t, err)
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(root, b.file))
	require.NoError(t, err)
	require.Contains(t, string(text), b.right, "%s is to be broken there", b.file)
	file := filepath.Join(dir, "broken.go")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), b.right, b.wrong, 1)), 0o644))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, b.file): file}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644))
	program = filepath.Join(dir, "kcm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"),
		"-o", program, "./kcm/cmd/kcm")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

func TestABrokenManagerIsFound(t *testing.T) {
	t.Parallel()
	clustertest.SkipIfShort(t)
	workloads, err := faults.Workloads()
	require.NoError(t, err)
	for _, b := range brokenManagers {
		t.Run(b.name, func(t *testing.T) {
			player, err := faults.Start(t.Context(), b.build(t), false)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, player.Close()) })
			spec, err := faults.ParseSpec(b.run, workloads)
			require.NoError(t, err)
			result, err := player.Play(t.Context(), spec, "")
			require.NoError(t, err)
			requireFinding(t, result, b.about)
		})
	}
}

func requireFinding(t *testing.T, result *faults.Result, about string) {
	t.Helper()
	var found []string
	for _, finding := range result.Findings {
		found = append(found, finding.About)
		require.NotEmpty(t, finding.Says)
	}
	require.Contains(t, found, about, strings.Join(result.Story, "\n"))
}
