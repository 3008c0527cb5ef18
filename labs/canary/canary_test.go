package canary_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/labs/canary"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
	"github.com/kcm-book/kcm-book/labs/play"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

func TestEachCanaryIsAScript(t *testing.T) {
	for _, c := range canary.All {
		_, err := play.ParseScript(c.Does, c.Script, "../scenarios/manifests")
		require.NoError(t, err)
	}
}

func TestEachLoopOfKCMAndOfTheOriginalDoesItsWork(t *testing.T) {
	on := clustertest.Cluster(t)
	kcm := filepath.Join(t.TempDir(), "kcm")
	out, err := exec.Command("go", "build", "-o", kcm, "../../kcm/cmd/kcm").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, reference := range []bool{false, true} {
		m, err := play.NewManager(t.Context(), on, reference, kcm)
		require.NoError(t, err)
		for _, loop := range m.Loops {
			idle := []string{"cloud-node-lifecycle-controller", "node-route-controller", "service-lb-controller", // there is no cloud
				"podcertificaterequest-cleaner-controller", "kube-apiserver-serving-clustertrustbundle-publisher-controller", // their gates are off
				"legacy-serviceaccount-token-cleaner-controller"} // what it goes by is noted since today
			has := slices.ContainsFunc(canary.All, func(c canary.Canary) bool { return c.Loop == loop })
			assert.NotEqual(t, slices.Contains(idle, loop), has, loop)
		}
		t.Run(m.Name, func(t *testing.T) {
			p, err := m.Start(m.Loops, append(canary.Flags, "--leader-elect=false", "--secure-port=0")...)
			require.NoError(t, err)
			t.Cleanup(p.Kill)
			for i, c := range canary.All {
				t.Run(fmt.Sprint(c.Loop, ": ", c.Does), func(t *testing.T) {
					if reference && c.Period.Duration > time.Minute {
						t.Skip("the original looks once an hour")
					}
					t.Parallel()
					require.NoError(t, c.Try(t.Context(), on, fmt.Sprintf("%s-%d", strings.ToLower(m.Name), i), time.Minute))
				})
			}
		})
	}
}
