package app

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/util/compatibility"
)

func TestEveryPathButHealthIsRefusedToThoseWhoMayNot(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(reviews))
	t.Cleanup(api.Close)
	for _, test := range []struct{ name, api, nobody, forged, known string }{
		{"while the API server answers", api.URL, "403 Forbidden", "401 Unauthorized", "403 Forbidden"},
		{"while the API server is away", away, "403 Forbidden", "401 Unauthorized", "401 Unauthorized"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := servingConfigFor(t, test.api)
			c.ComponentConfig.Generic.Debugging.EnableProfiling = true
			c.Version = compatibility.DefaultBuildEffectiveVersion()
			mux := newMux(c, newHealth(&c.ComponentConfig.Generic))
			stop, err := serve(t.Context(), c, mux)
			require.NoError(t, err)
			t.Cleanup(stop)

			paths := append(mux.ListedPaths(), "/debug/pprof/", "/debug/pprof/profile", "/debug/flags/v", "/debug/controllers/a", "/no/such/page")
			require.Subset(t, paths, []string{"/metrics", "/metrics/slis", "/configz", "/statusz", "/healthz", "/livez", "/readyz"})
			health := 0
			for _, path := range paths {
				switch path {
				case "/healthz", "/livez", "/readyz":
					health++
					assert.Equal(t, "200 OK", askFor(c, "", path), "GET %s without a token", path)
				case "/metrics": // tom may
				default:
					assert.Equal(t, test.nobody, askFor(c, "", path), "GET %s without a token", path)
					assert.Equal(t, test.forged, askFor(c, "forged", path), "GET %s with a wrong token", path)
					assert.Equal(t, test.known, askFor(c, "toms", path), "GET %s as somebody who may see other pages only", path)
				}
			}
			assert.Equal(t, 3, health)
		})
	}
}

func TestNobodyIsAnsweredByTLS11(t *testing.T) {
	t.Parallel()
	c := servingConfig(t)
	stop, err := serve(t.Context(), c, http.NotFoundHandler())
	require.NoError(t, err)
	t.Cleanup(stop)
	address := c.SecureServing.Listener.Addr().String()
	_, err = tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	require.ErrorContains(t, err, "protocol version not supported")
	connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	require.NoError(t, err, "TLS 1.2")
	connection.Close()
}

func TestSlowAndHugeRequestsDoNotHoldTheServer(t *testing.T) {
	t.Parallel()
	c := servingConfig(t)
	stop, err := serve(t.Context(), c, newMux(c, newHealth(&c.ComponentConfig.Generic)))
	require.NoError(t, err)
	address := c.SecureServing.Listener.Addr().String()
	dial := func() *tls.Conn {
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		require.NoError(t, err)
		t.Cleanup(func() { connection.Close() })
		return connection
	}
	for range 50 { // who never get to the end of what they ask
		_, err := fmt.Fprint(dial(), "GET /healthz HTTP/1.1\r\nHost: kcm\r\nX-Slow: ")
		require.NoError(t, err)
	}
	assert.Equal(t, "200 OK", askFor(c, "", "/healthz"), "50 others are slow")

	for name, test := range map[string]struct{ request, want string }{
		"a header of 2 MiB": {"GET /healthz HTTP/1.1\r\nX-Huge: " + strings.Repeat("a", 2<<20), "431 Request Header Fields Too Large"},
		"a body of 1 TiB":   {"POST /metrics HTTP/1.1\r\nHost: kcm\r\nContent-Length: 1099511627776\r\n\r\nbegun", "403 Forbidden"},
	} {
		connection := dial()
		_, _ = fmt.Fprint(connection, test.request) // the server may have closed before it is sent
		require.NoError(t, connection.SetReadDeadline(time.Now().Add(time.Minute)))
		line, err := bufio.NewReader(connection).ReadString('\n')
		assert.Contains(t, line, test.want, "the answer to %s: %v", name, err)
	}
	stopped(t, stop)
}
