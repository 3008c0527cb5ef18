// Package proxy puts a proxy between a controller manager and the API server,
// which can disturb what passes.
package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// RoundTripper is a function that is an [http.RoundTripper].
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f RoundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// ErrBroken is what a disturbance returns to break the connection off: who has
// asked gets no answer.
var ErrBroken = errors.New("the connection is broken off")

// Start starts a proxy before an API server and writes a kubeconfig with which
// to use it. A request without a bearer token is made as who config says, the
// manager itself. A loop that has a token is who the token says. All requests
// pass what wrap returns. The caller closes the server.
func Start(config *rest.Config, kubeconfig string, wrap func(next RoundTripper) RoundTripper) (*httptest.Server, error) {
	own, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	anonymous, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: wrap(func(request *http.Request) (*http.Response, error) {
			if request.Header.Get("Authorization") != "" {
				return anonymous.RoundTrip(request)
			}
			return own.RoundTrip(request)
		}),
		FlushInterval: -1, // at once
		ErrorHandler:  unanswered,
		ErrorLog:      log.New(io.Discard, "", 0), // who asks is told, and who has ended does not matter
	})
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"lab": {Server: server.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"lab": {Cluster: "lab"}},
		CurrentContext: "lab",
	}, kubeconfig)
	if err != nil {
		server.Close()
		return nil, err
	}
	return server, nil
}

// Close ends a proxy, and what still passes it.
func Close(server *httptest.Server) {
	server.CloseClientConnections()
	server.Close()
}

// Watches tells whether a request watches one of the resources, or anything if
// none is named.
func Watches(request *http.Request, resources ...string) bool {
	return request.URL.Query().Get("watch") != "" &&
		(len(resources) == 0 || slices.Contains(resources, path.Base(request.URL.Path)))
}

// Refuse answers as an API server does that refuses a request with a code.
func Refuse(request *http.Request, code int) *http.Response {
	reason, found := map[int]metav1.StatusReason{
		403: metav1.StatusReasonForbidden, 409: metav1.StatusReasonConflict, 410: metav1.StatusReasonExpired, 422: metav1.StatusReasonInvalid,
		429: metav1.StatusReasonTooManyRequests, 500: metav1.StatusReasonInternalError, 504: metav1.StatusReasonTimeout,
	}[code]
	if !found {
		panic(fmt.Sprintf("no reason for code %d", code))
	}
	says := "the lab's proxy refuses this request"
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: reason, Code: int32(code), Message: says,
		Details: &metav1.StatusDetails{Name: path.Base(request.URL.Path), Causes: []metav1.StatusCause{{Message: says}}},
	})
	if err != nil {
		panic(err) // a Status is made of strings
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
	}
	return &http.Response{
		StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Request: request,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

func unanswered(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(err, ErrBroken) {
		panic(http.ErrAbortHandler) // is how net/http breaks a connection off
	}
	w.WriteHeader(http.StatusBadGateway)
}
