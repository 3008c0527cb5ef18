package trace

import (
	"net/http"
	"time"
)

// Writes tells of the writes that pass a transport on behalf of a sync: what was
// asked and what came of it. So a loop need not say what it does, and cannot
// forget to.
func Writes(next http.RoundTripper) http.RoundTripper { return writes{next} }

type writes struct{ next http.RoundTripper }

// RoundTrip asks next.
func (w writes) RoundTrip(request *http.Request) (*http.Response, error) {
	s := of(request.Context())
	if s == nil || request.Method == http.MethodGet {
		return w.next.RoundTrip(request)
	}
	begin := time.Now()
	response, err := w.next.RoundTrip(request)
	step := s.step(Done)
	step.Request = request.Method + " " + request.URL.Path
	step.Seconds = time.Since(begin).Seconds()
	if err != nil {
		step.Error = err.Error()
	} else {
		step.Code = response.StatusCode
	}
	Tell(step)
	return response, err
}

// WrappedRoundTripper lets the libraries find what is wrapped.
func (w writes) WrappedRoundTripper() http.RoundTripper { return w.next }
