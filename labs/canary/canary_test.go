package canary_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/labs/canary"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
	"github.com/kcm-book/kcm-book/labs/play"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

func TestEachLoopOfKCMAndOfTheOriginalDoesItsWork(t *testing.T) {
	on := clustertest.Cluster(t)
	kcm := filepath.Join(t.TempDir(), "kcm")
	out, err := exec.Command("go", "build", "-o", kcm, "../../kcm/cmd/kcm").CombinedOutput()
	require.NoError(t, err, string(out))
	config := on.RESTConfig(cluster.Admin)
	config.WarningHandler = rest.NoWarnings{}
	client := dynamic.NewForConfigOrDie(config)
	for _, reference := range []bool{false, true} {
		m, err := play.NewManager(t.Context(), on, reference, kcm)
		require.NoError(t, err)
		for _, loop := range m.Loops {
			if !canary.Has(loop) {
				assert.Contains(t, []string{"cloud-node-lifecycle-controller", "node-route-controller", "service-lb-controller"}, loop)
			}
		}
		t.Run(m.Name, func(t *testing.T) {
			p, err := m.Start(m.Loops, "--leader-elect=false", "--secure-port=0")
			require.NoError(t, err)
			t.Cleanup(p.Kill)
			for i, c := range canary.All {
				t.Run(fmt.Sprint(c.Loop, ": ", c.Does), func(t *testing.T) {
					t.Parallel()
					took, err := c.Try(t.Context(), client, fmt.Sprintf("%s-%d", strings.ToLower(m.Name), i))
					require.NoError(t, err)
					t.Log(took)
				})
			}
		})
	}
}
