package odd

import (
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/kcm-book/kcm-book/labs/proxy"
)

// rare is of how many writes of a manager one is refused, and one done with an answer that is lost.
const rare = 20

// refusals are the codes of which one is drawn.
var refusals = []int{403, 409, 422, 429, 500, 504}

// disturb is what passes between a manager and the API server: while operations are sent, some of its writes are refused,
// and some answers lost. Events and Leases are left alone.
func (p *Player) disturb(next proxy.RoundTripper) proxy.RoundTripper {
	return func(request *http.Request) (*http.Response, error) {
		path := request.URL.Path
		if request.Method == http.MethodGet || !p.disturbing.Load() || strings.Contains(path, "/leases") || strings.Contains(path, "/events") {
			return next(request)
		}
		switch rand.N(rare) {
		case 0:
			p.faults.Add(1)
			return proxy.Refuse(request, refusals[rand.N(len(refusals))]), nil
		case 1:
			p.faults.Add(1)
			if response, err := next(request); err == nil {
				response.Body.Close()
			}
			return nil, proxy.ErrBroken
		}
		return next(request)
	}
}
