package proxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEachEventOfAWatchIsReadWhenItsFateSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := Watches(func(ctx context.Context, _ []byte, came time.Time) error {
			return Pause(ctx, came.Add(2*time.Second))
		}, "pods")
		from, to := io.Pipe()
		do := late(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: from}, nil
		})
		response, err := do(httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=true", nil))
		require.NoError(t, err)
		go func() {
			defer to.Close()
			for range 3 { // the second and the third come while the first is held
				_, _ = io.WriteString(to, "{}\n")
				time.Sleep(time.Second)
			}
		}()
		began, buffer := time.Now(), make([]byte, 1000)
		var at []time.Duration
		for range 3 {
			_, err := response.Body.Read(buffer)
			require.NoError(t, err)
			at = append(at, time.Since(began))
		}
		require.Equal(t, []time.Duration{2 * time.Second, 3 * time.Second, 4 * time.Second}, at)
		_, err = response.Body.Read(buffer)
		require.ErrorIs(t, err, io.EOF)

		other, err := do(httptest.NewRequest(http.MethodGet, "/api/v1/services?watch=true", nil))
		require.NoError(t, err)
		require.Same(t, from, other.Body, "nobody decides on the watches of others")
	})
}
