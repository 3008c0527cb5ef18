package lab

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

// RoundTripper is a function that is an [http.RoundTripper].
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f RoundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// Through returns the path of a kubeconfig for a controller manager whose requests
// to the API server pass what wrap returns. A request without a bearer token is
// the manager's own. A loop that has a token is who the token says.
func (s *Step) Through(name string, wrap func(next RoundTripper) RoundTripper) string {
	s.Helper()
	config := s.lab.Cluster.RESTConfig(cluster.KCM)
	own, err := rest.TransportFor(config)
	require.NoError(s, err)
	anonymous, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	require.NoError(s, err)
	target, err := url.Parse(config.Host)
	require.NoError(s, err)
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: wrap(func(request *http.Request) (*http.Response, error) {
			if request.Header.Get("Authorization") != "" {
				return anonymous.RoundTrip(request)
			}
			return own.RoundTrip(request)
		}),
		FlushInterval: -1, // at once
	})
	s.lab.t.Cleanup(func() {
		server.Config.Close() // a manager that still runs would come back for another watch
		server.Close()
	})
	path := filepath.Join(s.lab.logs, name+".kubeconfig")
	require.NoError(s, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"lab": {Server: server.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"lab": {Cluster: "lab"}},
		CurrentContext: "lab",
	}, path))
	return path
}
