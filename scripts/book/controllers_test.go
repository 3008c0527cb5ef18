package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/kcm/app"
	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// A controller needs its package and, in kcm/app, an import, an entry among the descriptors, a constructor and a row for
// each flag; a canary; and what is asked for here. (What each lacks is told in kcm/app, where its flags are compared with
// the original's, and in labs/canary. CONTRIBUTING.md says where exceptions are.)
func TestEveryControllerHasAChapterALabAndScenarios(t *testing.T) {
	t.Parallel()
	all, err := chapters.Read(filepath.Join("..", ".."))
	require.NoError(t, err)
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	aliases := map[string][]string{}
	for alias, name := range app.ControllerAliases() {
		aliases[name] = append(aliases[name], alias)
	}
	for _, name := range app.KnownControllers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listed := "`" + strings.TrimSuffix(name, "-controller") + "`"
			assert.True(t, strings.Contains(string(readme), listed), "README.md has %s among the loops", listed)
			chapter := chapters.OfController(all, name)
			require.NotNil(t, chapter, "a chapter whose roster of NewControllerDescriptors has it")
			assert.FileExists(t, filepath.Join("..", "..", "labs", chapter.Slug, "lab.txtar"), "the lab of its chapter")
			if slices.Contains([]string{"podcertificaterequest-cleaner-controller", "kube-apiserver-serving-clustertrustbundle-publisher-controller"}, name) {
				return // a lab cluster does not serve its kind, which is behind a gate
			}
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
