package trace

import (
	"encoding/json"
	"net/http"
)

// Path is where the manager serves the steps, to those who may read it.
const Path = "/debug/trace"

// Handler answers with the steps from now on, a line of JSON each, until who asks
// goes away. ?namespace= leaves out what is about others. A line is sent as soon
// as it is there.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			http.Error(w, "only GET is answered here", http.StatusMethodNotAllowed)
			return
		}
		steps, stop := Listen(r.URL.Query().Get("namespace"))
		defer stop()
		w.Header().Set("Content-Type", "application/jsonl")
		out, control := json.NewEncoder(w), http.NewResponseController(w)
		if control.Flush() != nil {
			return
		}
		for {
			select {
			case <-r.Context().Done():
				return
			case step := <-steps:
				if out.Encode(step) != nil || len(steps) == 0 && control.Flush() != nil {
					return
				}
			}
		}
	})
}
