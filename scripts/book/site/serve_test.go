package site

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASaveOfAChapterIsSeenAndNotWhatEditorsWriteBesideIt(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	chapter := filepath.Join(root, "chapters", "01-command", "README.md")
	require.NoError(t, os.MkdirAll(filepath.Dir(chapter), 0o755))
	before := look(root)
	require.NoError(t, os.WriteFile(chapter, nil, 0o644))
	written := look(root)
	assert.NotEqual(t, before, written)
	require.NoError(t, os.WriteFile(chapter+".swp", nil, 0o644))
	assert.Equal(t, written, look(root))
	later := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(chapter, later, later))
	saved := look(root)
	assert.NotEqual(t, written, saved)
	require.NoError(t, os.Remove(chapter))
	assert.NotEqual(t, saved, look(root), "one that has gone, too")
}

func TestAPortThatIsTakenIsSaidWithWhatToDo(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	err := Serve(t.Context(), t.TempDir(), server.Listener.Addr().(*net.TCPAddr).Port, io.Discard)
	assert.ErrorContains(t, err, "choose another one: make serve PORT=8001")
}
