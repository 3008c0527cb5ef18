package app

import (
	"errors"
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

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// lateServer refuses requests until it is up.
type lateServer struct{ up time.Time }

func (s lateServer) RoundTrip(*http.Request) (*http.Response, error) {
	if time.Now().Before(s.up) {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("ok"))}, nil
}

func TestTheAPIServerIsWaitedForAsLongAsItTakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		kubeconfig := &rest.Config{Host: "http://api", Transport: lateServer{up: start.Add(time.Hour)}}
		client, err := kubernetes.NewForConfig(kubeconfig)
		require.NoError(t, err)
		c, err := (&config.Config{Kubeconfig: kubeconfig, Client: client, Identity: "a"}).Complete()
		require.NoError(t, err)
		assert.True(t, waitForAPIServer(t.Context(), c))
		assert.InDelta(t, time.Hour, time.Since(start), float64(2*time.Second))
	})
}
