package play

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/labs/proxy"
)

// passed sends a request through a disturbance, and returns what the API server is asked for.
func passed(t *testing.T, wrap wrapping, method, path string) (asked string, err error) {
	t.Helper()
	answers := func(request *http.Request) (*http.Response, error) {
		asked = request.Method + " " + request.URL.String()
		return httptest.NewRecorder().Result(), nil
	}
	_, err = wrap(answers)(httptest.NewRequest(method, path, nil))
	return asked, err
}

func TestAProxyShowsOnlyWhatASelectorMatches(t *testing.T) {
	only, err := onlySelected(nil, []string{"nodes", "of=me"})
	require.NoError(t, err)
	for _, c := range []struct{ method, path, asked string }{
		{"GET", "/api/v1/nodes?watch=1", "GET /api/v1/nodes?labelSelector=of%3Dme&watch=1"},
		{"GET", "/api/v1/nodes/a", "GET /api/v1/nodes/a"},
		{"GET", "/api/v1/pods", "GET /api/v1/pods"},
		{"PATCH", "/api/v1/nodes/a", "PATCH /api/v1/nodes/a"},
	} {
		asked, err := passed(t, only, c.method, c.path)
		require.NoError(t, err)
		require.Equal(t, c.asked, asked)
	}
	_, err = onlySelected(nil, []string{"nodes"})
	require.Error(t, err)
}

func TestAPatchWhoseAnswerIsLostIsCarriedOut(t *testing.T) {
	mute, err := mute(nil, []string{"2", "/api/v1/nodes/a"})
	require.NoError(t, err)
	for number, lost := range []bool{true, true, false} {
		asked, err := passed(t, mute, "PATCH", "/api/v1/nodes/a")
		require.Equal(t, "PATCH /api/v1/nodes/a", asked)
		require.Equal(t, lost, err == proxy.ErrBroken, "patch %d", number+1)
		_, err = passed(t, mute, "PATCH", "/api/v1/nodes/b")
		require.NoError(t, err, "it is another object's")
		_, err = passed(t, mute, "GET", "/api/v1/nodes/a")
		require.NoError(t, err, "it is no patch")
	}
	_, err = first("PATCH", []string{"many", "/api/v1/nodes/a"})
	require.Error(t, err)
}
