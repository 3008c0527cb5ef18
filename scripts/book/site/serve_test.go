package site

import (
	"bytes"
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

func TestAPageThatIsServedHearsOfASave(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "index.html"), []byte("<p>the book</p>"), 0o644))
	saves := &broadcast{}
	server := httptest.NewServer(handler(dir, saves))
	defer server.Close()
	answer, err := http.Get(server.URL + "/")
	require.NoError(t, err)
	page, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Equal(t, "<p>the book</p>"+reloading, string(page))

	answer, err = http.Get(server.URL + "/saved")
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Eventually(t, func() bool { saves.mu.Lock(); defer saves.mu.Unlock(); return saves.done != nil }, time.Minute, time.Millisecond)
	saves.send()
	told, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Equal(t, "data: saved\n\n", string(told))
}

func TestASaveOfAChapterIsSeen(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range append(watched, "chapters/01-command") {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	watcher, err := watch(root)
	require.NoError(t, err)
	defer watcher.Close()
	require.NoError(t, os.WriteFile(filepath.Join(root, "chapters/01-command/README.md"), nil, 0o644))
	assert.True(t, saved(t.Context(), watcher))
}

func TestWhatAnEditorWritesBesideAFileIsNoSave(t *testing.T) {
	t.Parallel()
	assert.True(t, isOfTheBook("chapters/01-command/README.md"))
	assert.False(t, isOfTheBook("chapters/01-command/.README.md.swp"))
	assert.False(t, isOfTheBook("chapters/01-command/README.md~"))
}

func TestAPortThatIsTakenIsSaidWithWhatToDo(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	err := Serve(t.Context(), t.TempDir(), t.TempDir(), server.Listener.Addr().(*net.TCPAddr).Port, &bytes.Buffer{})
	assert.ErrorContains(t, err, "choose another one: make serve PORT=8001")
}
