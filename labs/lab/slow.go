package lab

import (
	"io"
	"net/http"
	"time"
)

// SlowWatches returns the path of a kubeconfig for a controller manager through
// which every watch arrives late by a delay, and everything else at once. So the
// caches of who uses it lag behind.
func (s *Step) SlowWatches(delay time.Duration) string {
	s.Helper()
	return s.Through("slow", func(next RoundTripper) RoundTripper {
		return func(request *http.Request) (*http.Response, error) {
			response, err := next(request)
			if err == nil && request.URL.Query().Get("watch") != "" {
				response.Body = late(response.Body, delay)
			}
			return response, err
		}
	})
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
