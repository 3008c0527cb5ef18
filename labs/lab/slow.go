package lab

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

// SlowWatches returns the path of a kubeconfig for a controller manager through
// which every watch arrives late by a delay, and everything else at once. So the
// caches of who uses it lag behind.
func (s *Step) SlowWatches(delay time.Duration) string {
	s.Helper()
	config := s.lab.Cluster.RESTConfig(cluster.KCM)
	own, err := rest.TransportFor(config)
	require.NoError(s, err)
	anonymous, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	require.NoError(s, err)
	target, err := url.Parse(config.Host)
	require.NoError(s, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     identities{own: own, anonymous: anonymous},
		FlushInterval: -1, // at once
		ModifyResponse: func(response *http.Response) error {
			if response.Request.URL.Query().Get("watch") != "" {
				response.Body = late(response.Body, delay)
			}
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	s.lab.t.Cleanup(func() {
		server.Config.Close() // a manager that still runs would come back for another watch
		server.Close()
	})
	path := filepath.Join(s.lab.logs, "slow.kubeconfig")
	require.NoError(s, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"lab": {Server: server.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"lab": {Cluster: "lab"}},
		CurrentContext: "lab",
	}, path))
	return path
}

// identities sends requests without a bearer token with the manager's own
// certificate. A loop that has a token is who the token says.
type identities struct{ own, anonymous http.RoundTripper }

func (i identities) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Header.Get("Authorization") != "" {
		return i.anonymous.RoundTrip(request)
	}
	return i.own.RoundTrip(request)
}

// late returns a body whose parts can be read only when delay has passed since
// they came.
func late(body io.ReadCloser, delay time.Duration) io.ReadCloser {
	type part struct {
		at   time.Time
		data []byte
	}
	parts := make(chan part, 10_000)
	reader, writer := io.Pipe()
	go func() {
		defer close(parts)
		for {
			buffer := make([]byte, 64*1024)
			n, err := body.Read(buffer)
			if n > 0 {
				parts <- part{time.Now(), buffer[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		for p := range parts {
			time.Sleep(time.Until(p.at.Add(delay))) // the delay is what this is for
			if _, err := writer.Write(p.data); err != nil {
				break
			}
		}
		writer.Close()
	}()
	return &lateBody{reader, body}
}

// lateBody is read late, and closed at once.
type lateBody struct {
	*io.PipeReader
	body io.Closer
}

func (b *lateBody) Close() error {
	b.PipeReader.Close()
	return b.body.Close()
}
