package faults

import (
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/proxy"
)

// Hand disturbs managers when somebody wants it, and not at a number: each fault happens at the next write or event. It
// shows the managers all namespaces.
type Hand struct {
	traffic *traffic
	server  *httptest.Server
	deleted sync.Map // the paths of what the managers have asked to delete
}

// NewHand starts a proxy before the API server for managers that are a user, and writes a kubeconfig with which to use
// it. The caller closes the hand.
func NewHand(c *cluster.Cluster, user cluster.User, kubeconfig string) (h *Hand, err error) {
	// What happens outside of the proxy is who has the hand to do.
	h = &Hand{traffic: newTraffic("", nil, Fault{}, func(Fault) {})}
	h.server, err = proxy.Start(c.RESTConfig(user), kubeconfig, func(next proxy.RoundTripper) proxy.RoundTripper {
		disturbed := h.traffic.wrap(next)
		return func(request *http.Request) (*http.Response, error) {
			if request.Method == http.MethodDelete {
				h.deleted.Store(request.URL.Path, true)
			}
			return disturbed(request)
		}
	})
	return h, err
}

// Deletes tells whether a manager has asked to delete a pod. If not it was somebody else.
func (h *Hand) Deletes(namespace, pod string) bool {
	_, asked := h.deleted.Load("/api/v1/namespaces/" + namespace + "/pods/" + pod)
	return asked
}

// Arm has a fault of the proxy happen once, at the next write, or at the next event of a resource where it is about
// one.
func (h *Hand) Arm(kind, resource string) error {
	fault, err := parseFault(Fault{Kind{Name: kind}, resource, 1}.String())
	if err == nil {
		h.traffic.arm(fault)
	}
	return err
}

// Frozen says that the leader was frozen just now, and has wake called at the first write of the next one.
func (h *Hand) Frozen(wake func()) { h.traffic.atNextWrite(wake) }

// Close ends the proxy, and what still passes it.
func (h *Hand) Close() { proxy.Close(h.server) }
