package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAScenarioThatRejectsTheBrokenManagerSaysAtWhichLine(t *testing.T) {
	for name, c := range map[string]struct{ prints, how, wrong string }{
		"it fails": {"echo '  ✗ 7.1 s'; echo 'play: the script has failed: stuck.txtar:9: there are 3 pods' >&2; exit 1",
			"stuck.txtar:9: there are 3 pods", ""},
		"it passes": {"exit 0", "", "the broken manager passes it each time, and it was played three times"},
		"there is no cluster": {"echo 'play: start a lab cluster: no port' >&2; exit 1", "",
			"the broken manager could not be tried\n\n    play: start a lab cluster: no port"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(root, "bin"), 0o755))
			play := "#!/bin/sh\n" + c.prints + "\n"
			require.NoError(t, os.WriteFile(filepath.Join(root, "bin", "play"), []byte(play), 0o755))
			how, wrong, err := reject(t.Context(), root, "kcm", "stuck.txtar")
			require.NoError(t, err)
			assert.Equal(t, c.how, how)
			assert.Equal(t, c.wrong, wrong)
		})
	}
}
