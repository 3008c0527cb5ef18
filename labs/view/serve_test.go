package view

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// largest is how much the page may have that is embedded, in bytes.
const largest = 200_000

func get(t *testing.T, v *View, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	v.Handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestOnlyWhoHasTheTokenSeesAnything(t *testing.T) {
	t.Parallel()
	done := 0
	v := New("the loops")
	v.Deeds = []Deed{{Name: "Kill", Does: "kills", Do: func(context.Context) error { done++; return nil }}}
	for _, path := range []string{"/", "/moments", "/wrong/", "/wrong/moments", "/wrong/export", "/" + v.token[1:] + "/"} {
		assert.Equal(t, http.StatusForbidden, get(t, v, http.MethodGet, path).Code, path)
	}
	assert.Equal(t, http.StatusForbidden, get(t, v, http.MethodPost, "/wrong/deeds/Kill").Code)
	assert.Zero(t, done, "how often somebody without the token has done something")
	assert.Equal(t, http.StatusOK, get(t, v, http.MethodGet, "/"+v.token+"/").Code)
}

func TestAButtonDoesItsDeedAndTheLogSaysSo(t *testing.T) {
	t.Parallel()
	done := 0
	v := New("the loops")
	v.Deeds = []Deed{
		{Name: "One pod more", Does: "scales up", Do: func(context.Context) error { done++; return nil }},
		{Name: "Leader killed", Does: "kills", Do: func(context.Context) error { return errors.New("nobody leads") }},
	}
	assert.Equal(t, http.StatusNoContent, get(t, v, http.MethodPost, "/"+v.token+"/deeds/One%20pod%20more").Code)
	assert.Equal(t, 1, done)
	refused := get(t, v, http.MethodPost, "/"+v.token+"/deeds/Leader%20killed")
	assert.Equal(t, http.StatusConflict, refused.Code)
	assert.Contains(t, refused.Body.String(), "nobody leads")
	assert.Contains(t, get(t, v, http.MethodPost, "/"+v.token+"/deeds/other").Body.String(), "there is no button")
	assert.Equal(t, http.StatusForbidden,
		get(t, v, http.MethodGet, "/"+v.token+"/deeds/Leader%20killed").Code, "a link does nothing")
	assert.Equal(t,
		[]string{"One pod more: scales up", "Leader killed: kills", "Leader killed did not succeed: nobody leads"}, lines(v))
}

func TestMomentsComeAsTheyHappenAndGoOnAfterTheLastOne(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	v.Did("one")
	server := httptest.NewServer(v.Handler())
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	follow := func(last string) *bufio.Scanner {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/"+v.token+"/moments", nil)
		require.NoError(t, err)
		request.Header.Set("Last-Event-ID", last)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		t.Cleanup(func() { response.Body.Close() })
		return bufio.NewScanner(response.Body)
	}
	next := func(events *bufio.Scanner) string {
		for events.Scan() {
			if line, is := strings.CutPrefix(events.Text(), "data: "); is {
				return line
			}
		}
		return "the connection has ended"
	}
	events := follow("")
	assert.Contains(t, next(events), `"says":"one"`)
	v.Did("two")
	second := next(events)
	assert.Contains(t, second, `"says":"two"`)
	assert.NotContains(t, second, `"says":"one"`)
	assert.NotContains(t, next(follow("1")), `"says":"one"`, "what a page that connects anew has already")
}

func TestAnExportHasAllInOneFileAndItsTextIsNoCode(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	v.Did("</script><script>alert(1)</script>")
	text, err := v.Recording(v.Title, "", "", 0, 99)
	require.NoError(t, err)
	file := string(text)
	assert.NotContains(t, file, "alert(1)</script>")
	assert.Contains(t, file, "moments")
	for _, outside := range []string{`src="`, `<link rel="stylesheet"`, "\nimport ", "\nexport "} {
		assert.NotContains(t, file, outside)
	}
}

func TestThePageIsSmall(t *testing.T) {
	t.Parallel()
	text, err := New("the loops").Recording("the loops", "", "", 0, 99)
	require.NoError(t, err)
	assert.Less(t, len(text), largest)
}

func TestTheSceneOfThePage(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs Node.js (on Debian: apt-get install nodejs)")
	}
	cmd := exec.CommandContext(t.Context(), node, "--test", "page/scene_test.mjs")
	cmd.Env = append(os.Environ(), "NODE_NO_WARNINGS=1")
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, "%s", out)
}

func TestTheRecordingsInTheBookAreOfThisPage(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("recordings/*.html")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	recorded := regexp.MustCompile(`(?m)^<script>const data = .*$|<(title|h1)>.*</(title|h1)>`)
	page, err := New("").Recording("", "", "../page", 0, 0)
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, recorded.ReplaceAllString(string(page), ""), recorded.ReplaceAllString(string(text), ""),
			"%s was recorded by another form of view.html: make transcripts does it anew", file)
		assert.FileExists(t, strings.TrimSuffix(file, ".html")+".svg", "its still picture")
	}
}
