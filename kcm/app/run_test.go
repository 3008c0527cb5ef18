package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// bootingServer is an API server that is not up yet.
type bootingServer struct {
	t     *testing.T
	began time.Time
	// answer says what becomes of a request so long after the beginning: nil that
	// it is healthy.
	answer func(ctx context.Context, after time.Duration) error
	asked  []time.Duration
}

var errUnhealthy = errors.New("500")

func (s *bootingServer) RoundTrip(request *http.Request) (*http.Response, error) {
	after := time.Since(s.began)
	s.asked = append(s.asked, after)
	if len(s.asked) == 20_000 {
		require.Fail(s.t, "the API server was asked 20,000 times, and nobody stops")
	}
	err := request.Context().Err()
	if err == nil {
		err = s.answer(request.Context(), after)
	}
	code := http.StatusOK
	switch {
	case request.URL.Path != "/healthz":
		code = http.StatusNotFound
	case errors.Is(err, errUnhealthy):
		code = http.StatusInternalServerError
	case err != nil:
		return nil, err
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("x"))}, nil
}

// waited is what became of waiting.
type waited struct {
	up    bool
	took  time.Duration
	asked []time.Duration
	// logged are the reasons that were logged, with semicolons between them, or "nothing".
	logged string
}

// waitFor waits for an API server for at most so long.
func waitFor(t *testing.T, stop time.Duration, answer func(ctx context.Context, after time.Duration) error) waited {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(2), ktesting.BufferLogs(true)))
	began := time.Now()
	ctx, cancel := context.WithTimeout(klog.NewContext(t.Context(), logger), stop)
	defer cancel()
	server := &bootingServer{t: t, began: began, answer: answer}
	kubeconfig := &rest.Config{Host: "http://api", Transport: server, QPS: -1}
	client, err := kubernetes.NewForConfig(kubeconfig)
	require.NoError(t, err)
	c, err := (&config.Config{Kubeconfig: kubeconfig, Client: client, Identity: "a"}).Complete()
	require.NoError(t, err)
	up := waitForAPIServer(ctx, c)
	var logged []string
	for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
		line := fmt.Sprint(entry.Message, entry.WithKVList, entry.ParameterKVList, entry.Err)
		switch {
		case strings.Contains(line, "connection refused"):
			line = "refused"
		case strings.Contains(line, "an error on the server"):
			line = "unhealthy"
		}
		logged = append(logged, line)
	}
	return waited{up, time.Since(began), server.asked, cmp.Or(strings.Join(logged, "; "), "nothing")}
}

// upAfter is a server that refuses connections until it is up.
func upAfter(d time.Duration) func(context.Context, time.Duration) error {
	return func(_ context.Context, after time.Duration) error {
		if after < d {
			return errors.New("connection refused")
		}
		return nil
	}
}

// hang is a server that takes the connection and does not answer. After an hour the
// connection breaks.
func hang(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Hour):
		return errors.New("connection reset")
	}
}

//exercise:race
func TestWaitForAPIServer(t *testing.T) {
	t.Parallel()
	const forever = 4 * time.Hour
	for _, test := range []struct {
		name  string
		check func(t *testing.T)
	}{
		{"an API server that is up is not waited for", func(t *testing.T) {
			w := waitFor(t, forever, upAfter(0))
			assert.True(t, w.up, "it is healthy")
			assert.Equal(t, "0s", w.took.String(), "how long it was waited for")
		}},
		{"an API server that comes after an hour is waited for", func(t *testing.T) {
			w := waitFor(t, forever, upAfter(time.Hour))
			assert.True(t, w.up, "it is healthy, after an hour")
			assert.Equal(t, time.Hour, w.took.Truncate(2*time.Second), "how long it was waited for")
		}},
		{"it is asked every second", func(t *testing.T) {
			w := waitFor(t, forever, upAfter(10*time.Second))
			assert.InDelta(t, 11, len(w.asked), 1, "how often it was asked in ten seconds; it was asked at %s", w.asked)
		}},
		{"an API server that answers and is not healthy is waited for", func(t *testing.T) {
			w := waitFor(t, forever, func(_ context.Context, after time.Duration) error {
				if after < 5*time.Second {
					return errUnhealthy
				}
				return nil
			})
			assert.True(t, w.up, "it is healthy, after 5 s")
			assert.Equal(t, 5*time.Second, w.took.Round(time.Second), "how long it was waited for")
		}},
		{"an answer that does not come is given up after ten seconds", func(t *testing.T) {
			w := waitFor(t, forever, func(ctx context.Context, after time.Duration) error {
				if after < time.Second {
					return hang(ctx)
				}
				return nil
			})
			assert.True(t, w.up, "the first request hangs, the second is answered")
			assert.InDelta(t, 10, w.took.Seconds(), 1.5, "how many seconds it was waited for")
		}},
		{"told to stop while it waits, it does", func(t *testing.T) {
			w := waitFor(t, 5500*time.Millisecond, upAfter(time.Hour))
			assert.False(t, w.up, "kcm is told to stop after 5.5 s; the API server comes after an hour")
			assert.Equal(t, "5.5s", w.took.String(), "how long it was waited for")
		}},
		{"told to stop while a request hangs, it does at once", func(t *testing.T) {
			w := waitFor(t, 3*time.Second, func(ctx context.Context, _ time.Duration) error { return hang(ctx) })
			assert.False(t, w.up, "kcm is told to stop after 3 s; no answer comes")
			assert.Equal(t, "3s", w.took.String(), "how long it was waited for")
		}},
		{"the same reason is logged once", func(t *testing.T) {
			w := waitFor(t, forever, upAfter(time.Minute))
			assert.Equal(t, "refused", w.logged, "what was logged in a minute in which connections were refused")
		}},
		{"another reason is logged as well", func(t *testing.T) {
			w := waitFor(t, forever, func(ctx context.Context, after time.Duration) error {
				if after >= 5*time.Second && after < 10*time.Second {
					return errUnhealthy
				}
				return upAfter(15*time.Second)(ctx, after)
			})
			assert.Equal(t, "refused; unhealthy; refused", w.logged, "what was logged while connections were refused for 5 s, then the answer was 500 for 5 s, then they were refused again")
		}},
		{"an API server that is up leaves nothing to log", func(t *testing.T) {
			assert.Equal(t, "nothing", waitFor(t, forever, upAfter(0)).logged, "what was logged")
		}},
		{"being told to stop is no reason to log", func(t *testing.T) {
			w := waitFor(t, 3*time.Second, func(ctx context.Context, _ time.Duration) error { return hang(ctx) })
			assert.Equal(t, "nothing", w.logged, "what was logged while the first request was still under way")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, test.check)
		})
	}
}
