package trace

import (
	"log/slog"
	"net/http"
	"time"
)

// Writes tells of the writes that pass a transport on behalf of a sync: what was
// asked and what came of it. So a loop need not say what it does, and cannot
// forget to.
func Writes(next http.RoundTripper) http.RoundTripper { return writes{next} }

type writes struct{ next http.RoundTripper }

// RoundTrip asks next, and returns what next returns. What a sync writes is told,
// with what came of it.
func (w writes) RoundTrip(request *http.Request) (*http.Response, error) {
	s := of(request.Context())
	if s == nil || request.Method == http.MethodGet {
		return w.next.RoundTrip(request)
	}
	begin := time.Now()
	response, err := w.next.RoundTrip(request)
	attrs := []slog.Attr{
		slog.Float64("seconds", time.Since(begin).Seconds()), slog.String("request", request.Method+" "+request.URL.Path),
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	} else {
		attrs = append(attrs, slog.Int("code", response.StatusCode))
	}
	tell(Done, s.namespace, s.about, attrs)
	return response, err
}

// WrappedRoundTripper lets the libraries find what is wrapped.
func (w writes) WrappedRoundTripper() http.RoundTripper { return w.next }
