package weave

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatIsPlayedWithKcmAloneIsOnThePageAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		page string
		want []string
	}{
		"all is there": {"[a](../labs/scenarios/deployment/differs.txtar), [It differs](../labs/07-deployment/lab.txtar)",
			nil},
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
			var got []string
			for _, mistake := range (pages{
				differencesPage:                            tt.page,
				"labs/07-deployment/lab.txtar":             "step It is alike\nstart a\n\nstep It differs\nonly kcm why\n",
				"labs/scenarios/deployment/differs.txtar":  "# Why.\n[reference] skip 'so'\n",
				"labs/scenarios/deployment/alike.txtar":    "[kind] skip 'so'\n",
				"labs/scenarios/deployment/unlisted.txtar": "create deployment.yaml\n",
			}).checkDifferences() {
				got = append(got, mistake.Error())
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestAQuestionHasAnAnswerThatIsExplainedAndShown(t *testing.T) {
	t.Parallel()
	assert.Empty(t, pages{}.checkQuestions(), "a book need not have that page")
	p := pages{"labs/01-shop/lab.txtar": "step It is closed\nstart kcm\n", questionsPage: `# Questions

### When is it open?

Never. Why: [hours](01-shop/README.md#hours). Shown by: [It is closed](../labs/01-shop/lab.txtar).

### When is it closed?

Always. Shown by: [It is open](../labs/01-shop/lab.txtar).

### A riddle

Why: [hours](01-shop/README.md#hours).
`}
	assert.EqualError(t, errors.Join(p.checkQuestions()...), `chapters/questions.md:7: "When is it closed?" does not link to the section of a chapter that explains it
chapters/questions.md:7: "When is it closed?" names a step that labs/01-shop/lab.txtar does not have: "It is open"
chapters/questions.md:11: "A riddle" is no question
chapters/questions.md:11: "A riddle" does not link to a scenario or a lab that shows it`)
}
