package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
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
		{[]string{"--fails-as=[135]$"}, behaviour{ends: true, exitCode: 1}},
		{[]string{"--fails-as=[246]$", "--run-for=1s"}, behaviour{ends: true, runFor: time.Second}},
		{[]string{"--exit-code=1", "--ends-as=[135]$"}, behaviour{ends: true, exitCode: 1}},
		{[]string{"--ends-as=[246]$", "--exit-code=1"}, behaviour{exitCode: 1}},
		{[]string{"--stop-after=2s"}, behaviour{stopAfter: 2 * time.Second}},
		{[]string{"--ask=http://shop"}, behaviour{ask: "http://shop"}},
	}
	for _, c := range cases {
		got, err := parse("web-3", c.args)
		require.NoError(t, err, c.args)
		require.Equal(t, c.want, got, c.args)
	}
	for wrong := range strings.FieldsSeq("--ready-after=soon --exit-code=x --fails-as=[ --ends-as=[ --no-such-flag word") {
		_, err := parse("web-3", []string{wrong})
		require.Error(t, err, wrong)
	}
}

func TestItIsReadyWhenItsTimeHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := behaviour{readyAfter: 5 * time.Second}.handler(time.Now(), "web-3", &caller{})
		require.Equal(t, 503, status(handler, "/ready"))
		time.Sleep(4999 * time.Millisecond)
		require.Equal(t, 503, status(handler, "/ready"))
		require.Equal(t, 200, status(handler, "/"), "it answers all the same")
		time.Sleep(time.Millisecond)
		require.Equal(t, 200, status(handler, "/ready"))

		never := behaviour{neverReady: true}.handler(time.Now(), "web-3", &caller{})
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
	behaviour{}.handler(time.Now(), "web-3", &caller{}).ServeHTTP(response, httptest.NewRequest("GET", "/", nil))
	require.Equal(t, "web:2 on web-3\n", response.Body.String())
}

func TestItCountsWhatIsAnsweredAndWhatFails(t *testing.T) {
	c := &caller{}
	asked := behaviour{}.handler(time.Now(), "web-3", c)
	answers := httptest.NewServer(behaviour{neverReady: true}.handler(time.Now(), "web-4", &caller{}))
	require.NoError(t, c.ask(answers.Client(), answers.URL))
	require.ErrorContains(t, c.ask(answers.Client(), answers.URL+"/ready"), "503")
	answers.Close()
	require.ErrorContains(t, c.ask(answers.Client(), "http://127.0.0.1:1"), "refused", "a port that is given to nobody")

	response := httptest.NewRecorder()
	asked.ServeHTTP(response, httptest.NewRequest("GET", "/asked", nil))
	require.Equal(t, "1 answered, 2 failed\n", response.Body.String())
}

func status(handler http.Handler, path string) int {
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, httptest.NewRequest("GET", path, nil))
	return response.Code
}
