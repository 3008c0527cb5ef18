package weave

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatIsPlayedWithKcmAloneIsOnThePageAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		page string
		want []string
	}{
		"all is there": {"[a](../labs/scenarios/deployment/differs.txtar), [It differs](../labs/07-deployment/lab.txtar)", nil},
		"a scenario and a step are missing": {"nothing", []string{
			"chapters/where-kcm-differs.md does not say why the original is left out of labs/07-deployment/lab.txtar: It differs",
			"chapters/where-kcm-differs.md does not say why the original is left out of labs/scenarios/deployment/differs.txtar",
		}},
		"what both play is no difference": {
			"[a](../labs/scenarios/deployment/differs.txtar) [b](../labs/scenarios/deployment/alike.txtar) " +
				"[It differs](../labs/07-deployment/lab.txtar) [It is alike](../labs/07-deployment/lab.txtar)", []string{
				"chapters/where-kcm-differs.md lists labs/07-deployment/lab.txtar: It is alike, and nothing of that name leaves the original out",
				"chapters/where-kcm-differs.md lists labs/scenarios/deployment/alike.txtar, and nothing of that name leaves the original out",
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			writeTree(t, root, map[string]string{
				differencesPage:                            tt.page,
				"labs/07-deployment/lab.txtar":             "step It is alike\nstart a\n\nstep It differs\nonly kcm why\n",
				"labs/scenarios/deployment/differs.txtar":  "# Why.\n[reference] skip 'so'\n",
				"labs/scenarios/deployment/alike.txtar":    "[kind] skip 'so'\n",
				"labs/scenarios/deployment/unlisted.txtar": "create deployment.yaml\n",
			})
			var got []string
			for _, mistake := range checkDifferences(root) {
				got = append(got, mistake.Error())
			}
			assert.Equal(t, tt.want, got)
		})
	}
}
