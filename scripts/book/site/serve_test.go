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

func TestAPageThatIsServedLooksWhetherItHasBeenWrittenAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "index.html")
	require.NoError(t, os.WriteFile(file, []byte("<p>the book</p>"), 0o644))
	written := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, os.Chtimes(file, written, written))
	server := httptest.NewServer(handler(dir))
	defer server.Close()
	answer, err := http.Get(server.URL + "/")
	require.NoError(t, err)
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Equal(t, "<p>the book</p>"+reloading, string(page))
	assert.Equal(t, "Fri, 02 Jan 2026 03:04:05 GMT", answer.Header.Get("Last-Modified"))
}

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
	err := Serve(t.Context(), t.TempDir(), t.TempDir(), server.Listener.Addr().(*net.TCPAddr).Port, io.Discard)
	assert.ErrorContains(t, err, "choose another one: make serve PORT=8001")
}
