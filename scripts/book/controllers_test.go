package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/kcm/app"
)

// A controller needs its package, an entry among the descriptors, its options, and what is asked for here. Nothing else
// knows of it. (That its flags stand in the right group is compared with the original's --help, in kcm/app.)
func TestEveryControllerHasAChapterALabAndScenarios(t *testing.T) {
	t.Parallel()
	aliases := map[string][]string{}
	for alias, name := range app.ControllerAliases() {
		aliases[name] = append(aliases[name], alias)
	}
	for _, name := range app.KnownControllers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chapter := chapterOf(t, name)
			require.NotEmpty(t, chapter, "a chapter whose roster of NewControllerDescriptors has it")
			assert.FileExists(t, filepath.Join("..", "..", "labs", chapter, "lab.txtar"), "the lab of its chapter")
			folders := 0
			for _, folder := range append(aliases[name], name) {
				scenarios, err := filepath.Glob(filepath.Join("..", "..", "labs", "scenarios", folder, "*.txtar"))
				require.NoError(t, err)
				folders += min(len(scenarios), 1)
			}
			assert.Equal(t, 1, folders, "a folder in labs/scenarios with its name or one of %q", aliases[name])
		})
	}
}

// chapterOf returns the first chapter that shows the descriptor of a controller.
func chapterOf(t *testing.T, name string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", "chapters", "*", "README.md"))
	require.NoError(t, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		_, roster, _ := strings.Cut(string(text), "func NewControllerDescriptors(")
		if roster, _, _ = strings.Cut(roster, "```"); strings.Contains(roster, `"`+name+`"`) {
			return filepath.Base(filepath.Dir(path))
		}
	}
	return ""
}
