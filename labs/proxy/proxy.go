// Package proxy puts a proxy between a controller manager and the API server, which can disturb what passes: an event
// of a watch can be late, held back or cut off (see [Watch]), a write refused ([Refuse]) or its answer lost
// ([ErrBroken]). Who uses it chooses which.
package proxy

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// RoundTripper is a function that is an [http.RoundTripper].
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f RoundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// ErrBroken is what a disturbance returns to break the connection off: who has asked gets no answer.
var ErrBroken = errors.New("the connection is broken off")

// Start starts a proxy before an API server and writes a kubeconfig with which to use it. A request without a bearer
// token is made as who config says, the manager itself. A loop that has a token is who the token says. All requests
// pass what wrap returns. The caller closes the server.
func Start(config *rest.Config, kubeconfig string, wrap func(RoundTripper) RoundTripper) (*httptest.Server, error) {
	own, ownErr := rest.TransportFor(config)
	anonymous, anonymousErr := rest.TransportFor(rest.AnonymousClientConfig(config))
	target, targetErr := url.Parse(config.Host)
	if err := cmp.Or(ownErr, anonymousErr, targetErr); err != nil {
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
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if errors.Is(err, ErrBroken) {
				panic(http.ErrAbortHandler) // is how net/http breaks a connection off
			}
			w.WriteHeader(http.StatusBadGateway)
		},
		ErrorLog: log.New(io.Discard, "", 0), // who asks is told, and who has ended does not matter
	})
	err := clientcmd.WriteToFile(clientcmdapi.Config{
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

// Fate decides on an event of a watch, a line of JSON that came at a time: it is read when Fate returns. An error ends
// the watch instead. The context ends when nobody reads the watch any more.
type Fate func(ctx context.Context, event []byte, came time.Time) error

// Watches lets fate decide on the events of watches of some resources, or of all if none is named. All else passes at
// once.
func Watches(fate Fate, resources ...string) func(next RoundTripper) RoundTripper {
	return func(next RoundTripper) RoundTripper {
		return func(request *http.Request) (*http.Response, error) {
			concerned := len(resources) == 0 || slices.Contains(resources, path.Base(request.URL.Path))
			if !concerned || request.URL.Query().Get("watch") == "" {
				return next(request)
			}
			return Watch(next, request, fate)
		}
	}
}

// Watch begins a watch on whose events fate decides.
func Watch(next RoundTripper, request *http.Request, fate Fate) (*http.Response, error) {
	Readable(request)
	response, err := next(request)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	body, ctx, come := response.Body, request.Context(), make(chan event, 10_000)
	go func() {
		defer close(come)
		for lines := bufio.NewReader(body); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			select {
			case come <- event{line, time.Now()}:
			case <-ctx.Done():
				return
			}
		}
	}()
	response.Body = &events{Closer: body, next: func() ([]byte, error) {
		e, open := <-come
		if !open {
			return nil, io.EOF
		}
		return e.line, fate(ctx, e.line, e.came)
	}}
	return response, nil
}

type event struct {
	line []byte
	came time.Time
}

// events are the body of a watch.
type events struct {
	io.Closer
	next func() ([]byte, error)
	rest []byte // of the event that is being read
}

func (e *events) Read(p []byte) (n int, err error) {
	if len(e.rest) == 0 {
		if e.rest, err = e.next(); err != nil {
			return 0, err
		}
	}
	n = copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// Pause returns at a time, or with an error when ctx ends before.
func Pause(ctx context.Context, until time.Time) error {
	select {
	case <-time.After(time.Until(until)): // the delay is what this is for
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Readable has the answer to a request come as JSON, and not compressed.
func Readable(request *http.Request) {
	request.Header.Del("Accept-Encoding")
	accepted := slices.DeleteFunc(strings.Split(request.Header.Get("Accept"), ","), func(kind string) bool {
		return !strings.HasPrefix(strings.TrimSpace(kind), "application/json")
	})
	if len(accepted) == 0 {
		accepted = []string{"application/json"}
	}
	request.Header.Set("Accept", strings.Join(accepted, ","))
}

// Refuse answers as an API server does that refuses a request with a code.
func Refuse(request *http.Request, code int) *http.Response {
	// With another method a conflict would say that the object exists already.
	status := apierrors.NewGenericServerResponse(code, http.MethodPut, schema.GroupResource{}, path.Base(request.URL.Path),
		"the lab's proxy refuses this request", 0, false).ErrStatus
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, _ := json.Marshal(status) // it is JSON
	header := http.Header{"Content-Type": {"application/json"}}
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
	}
	return &http.Response{
		StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Request: request,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}
