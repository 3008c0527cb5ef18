package weave

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAQuestionHasAnAnswerThatIsExplainedAndShown(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	assert.Empty(t, checkQuestions(root), "a book need not have that page")
	write("labs/01-shop/lab.txtar", "step It is closed\nstart kcm\n")
	write(questionsPage, `# Questions

### When is it open?

Never. Why: [hours](01-shop/README.md#hours). Shown by: [It is closed](../labs/01-shop/lab.txtar).

### When is it closed?

Always. Shown by: [It is open](../labs/01-shop/lab.txtar).

### A riddle

Why: [hours](01-shop/README.md#hours).
`)
	assert.EqualError(t, errors.Join(checkQuestions(root)...), `chapters/questions.md:7: "When is it closed?" does not link to the section of a chapter that explains it
chapters/questions.md:7: "When is it closed?" names a step that labs/01-shop/lab.txtar does not have: "It is open"
chapters/questions.md:11: "A riddle" is no question
chapters/questions.md:11: "A riddle" does not link to a scenario or a lab that shows it`)
}
