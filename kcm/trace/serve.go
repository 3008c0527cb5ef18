package trace

import (
	"net/http"
	"time"
)

// Path is where the manager serves the steps, to those who may read it.
const Path = "/debug/trace"

// together is for how long steps are gathered that go out together: to send each
// by itself would cost more than all the rest.
const together = 50 * time.Millisecond

// Handler answers with the steps from now on, a line of JSON each, until who asks
// goes away. ?namespace= leaves out what is about others. A line is sent within
// 50 ms.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			http.Error(w, "only GET is answered here", http.StatusMethodNotAllowed)
			return
		}
		l := Listen(r.URL.Query().Get("namespace"))
		defer l.Stop()
		w.Header().Set("Content-Type", "application/jsonl")
		control := http.NewResponseController(w)
		for control.Flush() == nil {
			select {
			case <-r.Context().Done():
				return
			case <-l.news:
				time.Sleep(together)
				if _, err := w.Write(l.Take()); err != nil {
					return
				}
			}
		}
	})
}
