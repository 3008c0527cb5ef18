package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFlagsSayHowItBehaves(t *testing.T) {
	cases := []struct {
		args []string
		want behaviour
	}{
		{nil, behaviour{}},
		{[]string{"--ready-after=5s"}, behaviour{readyAfter: 5 * time.Second}},
		{[]string{"--ready-after", "never"}, behaviour{neverReady: true}},
		{[]string{"--run-for=500ms"}, behaviour{ends: true, runFor: 500 * time.Millisecond}},
		{[]string{"--run-for=1s", "--exit-code=3"}, behaviour{ends: true, runFor: time.Second, exitCode: 3}},
		{[]string{"--exit-code=0"}, behaviour{ends: true}},
		{[]string{"--stop-after=2s"}, behaviour{stopAfter: 2 * time.Second}},
	}
	for _, c := range cases {
		got, err := parse(c.args)
		require.NoError(t, err, c.args)
		require.Equal(t, c.want, got, c.args)
	}
	for _, wrong := range []string{"--ready-after=soon", "--exit-code=x", "--no-such-flag", "word"} {
		_, err := parse([]string{wrong})
		require.Error(t, err, wrong)
	}
}

func TestItIsReadyWhenItsTimeHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := behaviour{readyAfter: 5 * time.Second}.handler(time.Now())
		require.Equal(t, 503, status(handler, "/ready"))
		time.Sleep(4999 * time.Millisecond)
		require.Equal(t, 503, status(handler, "/ready"))
		require.Equal(t, 200, status(handler, "/"), "it answers all the same")
		time.Sleep(time.Millisecond)
		require.Equal(t, 200, status(handler, "/ready"))

		never := behaviour{neverReady: true}.handler(time.Now())
		time.Sleep(time.Hour)
		require.Equal(t, 503, status(never, "/ready"))
	})
}

func TestItEndsByItselfOrWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		require.Equal(t, 3, behaviour{ends: true, runFor: 5 * time.Second, exitCode: 3}.wait(t.Context()))
		require.Equal(t, 5*time.Second, time.Since(begin))

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begin = time.Now()
		require.Equal(t, 143, behaviour{stopAfter: 2 * time.Second}.wait(ctx))
		require.Equal(t, time.Hour+2*time.Second, time.Since(begin))
	})
}

func TestItSaysWhoItIs(t *testing.T) {
	t.Setenv("VERSION", "2")
	response := httptest.NewRecorder()
	behaviour{}.handler(time.Now()).ServeHTTP(response, httptest.NewRequest("GET", "/", nil))
	hostname, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, "web:2 on "+hostname+"\n", response.Body.String())
}

func status(handler http.Handler, path string) int {
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, httptest.NewRequest("GET", path, nil))
	return response.Code
}
