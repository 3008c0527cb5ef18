package app

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	apiserveroptions "k8s.io/apiserver/pkg/server/options"
	certutil "k8s.io/client-go/util/cert"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// servingCertificate is made once: it takes a quarter of a second.
var servingCertificate = sync.OnceValues(func() (dynamiccertificates.CertKeyContentProvider, error) {
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return nil, err
	}
	return dynamiccertificates.NewStaticCertKeyContent("test", cert, key)
})

// reviews is an API server that knows tom, by the token "toms", and lets him get
// /metrics and nothing else. It knows nobody else.
func reviews(w http.ResponseWriter, r *http.Request) {
	var answer any
	switch r.URL.Path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		review := &authenticationv1.TokenReview{}
		if json.NewDecoder(r.Body).Decode(review) == nil && review.Spec.Token == "toms" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "tom"}}
		}
		answer = review
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		review := &authorizationv1.SubjectAccessReview{}
		if json.NewDecoder(r.Body).Decode(review) == nil && review.Spec.NonResourceAttributes != nil {
			review.Status.Allowed = review.Spec.User == "tom" && review.Spec.NonResourceAttributes.Path == "/metrics"
		}
		answer = review
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(answer)
}

// servingConfig is that of a manager with an open port, whose API server is reviews.
func servingConfig(t *testing.T) config.CompletedConfig {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(reviews))
	t.Cleanup(api.Close)
	return servingConfigFor(t, api.URL)
}

// servingConfigFor is that of a manager with an open port and the API server at url.
func servingConfigFor(t *testing.T, url string) config.CompletedConfig {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: api,
		contexts: [{name: api, context: {cluster: api}}], clusters: [{name: api, cluster: {server: %q}}]}`, url), 0o600))

	certificate, err := servingCertificate()
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	c := &config.Config{
		Identity:       "a",
		SecureServing:  &server.SecureServingInfo{Listener: listener, Cert: certificate},
		Authentication: apiserveroptions.NewDelegatingAuthenticationOptions(),
		Authorization:  apiserveroptions.NewDelegatingAuthorizationOptions(),
	}
	c.Authentication.RemoteKubeConfigFile, c.Authentication.SkipInClusterLookup = kubeconfig, true
	c.Authorization.RemoteKubeConfigFile = kubeconfig
	c.Authentication.TokenRequestTimeout, c.Authorization.ClientTimeout = time.Minute, time.Minute // on a machine however busy
	completed, err := c.Complete()
	require.NoError(t, err)
	return completed
}

// away is where no API server is: a port that is as low as this one is given to nobody who asks for any.
const away = "http://127.0.0.1:1"

// askFor returns what the manager answers to somebody with that token, or nobody.
func askFor(c config.CompletedConfig, token, path string) string {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	request, err := http.NewRequest("GET", "https://"+c.SecureServing.Listener.Addr().String()+path, nil)
	if err != nil {
		return err.Error()
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	if _, err := io.ReadAll(response.Body); err != nil {
		return err.Error()
	}
	return response.Status
}

// listens tells whether somebody listens at the port.
func listens(c config.CompletedConfig) bool {
	err := c.SecureServing.Listener.(*net.TCPListener).SetDeadline(time.Time{})
	return !errors.Is(err, net.ErrClosed)
}

// stopped waits until stop has returned.
func stopped(t *testing.T, stop func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { stop(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		require.Fail(t, "stop has not returned, and no request is under way")
	}
}

//exercise:race
func TestServe(t *testing.T) {
	t.Parallel()
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "a page") })
	for _, test := range []struct{ name, token, path, want string }{
		{"health is for everyone", "", "/healthz", "200 OK"},
		{"metrics are not for everyone", "", "/metrics", "403 Forbidden"},
		{"who may not look does not learn what there is not", "", "/no/such/page", "403 Forbidden"},
		{"whom the API server allows to see metrics does", "toms", "/metrics", "200 OK"},
		{"a right is for one path", "toms", "/configz", "403 Forbidden"},
		{"a wrong token is an error", "forged", "/metrics", "401 Unauthorized"},
		{"a wrong token is an error where none would do, too", "forged", "/healthz", "401 Unauthorized"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := servingConfig(t)
			stop, err := serve(t.Context(), c, page)
			require.NoError(t, err)
			who := "without a token"
			if test.token != "" {
				who = "with the token " + test.token
			}
			assert.Equal(t, test.want, askFor(c, test.token, test.path), "GET %s %s; the API server knows the token toms, and lets that user get /metrics", test.path, who)
			stopped(t, stop)
		})
	}

	t.Run("where nobody can be asked nobody is let in but to health", func(t *testing.T) {
		t.Parallel()
		c := servingConfigFor(t, away)
		stop, err := serve(t.Context(), c, page)
		require.NoError(t, err)
		assert.Equal(t, "403 Forbidden", askFor(c, "", "/metrics"), "GET /metrics without a token; the API server is away")
		assert.Equal(t, "401 Unauthorized", askFor(c, "toms", "/metrics"), "GET /metrics with a token; the API server is away")
		assert.Equal(t, "200 OK", askFor(c, "", "/healthz"), "GET /healthz without a token; the API server is away")
		stopped(t, stop)
	})
	t.Run("after stop nobody listens", func(t *testing.T) {
		t.Parallel()
		c := servingConfig(t)
		stop, err := serve(t.Context(), c, page)
		require.NoError(t, err)
		assert.Equal(t, "200 OK", askFor(c, "", "/healthz"), "GET /healthz before stop")
		stopped(t, stop)
		assert.False(t, listens(c), "stop has returned, and the port is still open")
	})
	t.Run("stop waits for an answer that is under way", func(t *testing.T) {
		t.Parallel()
		c := servingConfig(t)
		under, finish := make(chan struct{}), make(chan struct{})
		stop, err := serve(t.Context(), c, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(under); <-finish }))
		require.NoError(t, err)
		answer, done := make(chan string, 1), make(chan struct{})
		go func() { answer <- askFor(c, "", "/healthz") }()
		<-under
		told := time.Now()
		go func() { stop(); close(done) }()
		require.Eventually(t, func() bool { return !listens(c) }, time.Minute, time.Millisecond,
			"stop was called, and new requests are still taken")
		select { // a stop that does not wait returns moments after the port was closed
		case <-done:
			assert.GreaterOrEqual(t, time.Since(told), closeTimeout, "stop has returned, and an answer is still under way: the process would end and cut it off")
		case <-time.After(200 * time.Millisecond):
		}
		close(finish)
		assert.Equal(t, "200 OK", <-answer, "the answer that was under way")
		<-done
	})
	t.Run("what keeps the port from being served is told with its address", func(t *testing.T) {
		t.Parallel()
		c := servingConfig(t)
		c.SecureServing.CipherSuites = []uint16{tls.TLS_RSA_WITH_AES_256_CBC_SHA}
		_, err := serve(t.Context(), c, page)
		assert.ErrorContains(t, err, c.SecureServing.Listener.Addr().String(), "HTTP/2 cannot be served with --tls-cipher-suites=TLS_RSA_WITH_AES_256_CBC_SHA")
	})
	t.Run("with port 0 nothing is served and there is nothing to stop", func(t *testing.T) {
		t.Parallel()
		c := servingConfig(t)
		c.SecureServing = nil
		stop, err := serve(t.Context(), c, page)
		require.NoError(t, err)
		require.NotNil(t, stop, "the function that stops")
		stopped(t, stop)
	})
	for _, test := range []struct {
		flag string
		file func(config.CompletedConfig) *string
	}{
		{"authentication-kubeconfig", func(c config.CompletedConfig) *string { return &c.Authentication.RemoteKubeConfigFile }},
		{"authorization-kubeconfig", func(c config.CompletedConfig) *string { return &c.Authorization.RemoteKubeConfigFile }},
	} {
		t.Run("a file that cannot be used is told by "+test.flag, func(t *testing.T) {
			t.Parallel()
			c := servingConfig(t)
			*test.file(c) = filepath.Join(t.TempDir(), "nothing")
			_, err := serve(t.Context(), c, page)
			assert.ErrorContains(t, err, "--"+test.flag, "the file has gone since it was checked")
		})
	}
}
