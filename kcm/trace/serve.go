package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// Path is where the manager serves the steps, to those who may read it.
const Path = "/debug/trace"

// together is for how long steps are gathered that go out together: to send each
// by itself would cost more than all the rest.
const together = 20 * time.Millisecond

// Handler answers with the steps from now on, a line of JSON each, until who asks
// goes away. ?namespace= leaves out what is about others. A line is sent within
// 20 ms.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			http.Error(w, "only GET is answered here", http.StatusMethodNotAllowed)
			return
		}
		steps, stop := Listen(r.URL.Query().Get("namespace"))
		defer stop()
		w.Header().Set("Content-Type", "application/jsonl")
		control := http.NewResponseController(w)
		for control.Flush() == nil {
			select {
			case <-r.Context().Done():
				return
			case first := <-steps:
				time.Sleep(together)
				if send(w, first, steps) != nil {
					return
				}
			}
		}
	})
}

// send writes a step and those that wait after it.
func send(w io.Writer, first Step, more <-chan Step) error {
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	err := lines.Encode(first)
	for n := len(more); n > 0 && err == nil; n-- {
		err = lines.Encode(<-more)
	}
	return cmp.Or(err, out.Flush())
}
