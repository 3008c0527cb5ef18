package faults

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/proxy"
)

// Hand disturbs managers when somebody wants it, and not at a number: each fault
// happens at the next write or event. It shows the managers all namespaces.
type Hand struct {
	traffic *traffic
	server  *httptest.Server
	deleted sync.Map // the paths of what the managers have asked to delete
}

// NewHand starts a proxy before the API server for managers that are a user, and
// writes a kubeconfig with which to use it. The caller closes the hand.
func NewHand(c *cluster.Cluster, user cluster.User, kubeconfig string) (*Hand, error) {
	client, err := kubernetes.NewForConfig(c.RESTConfig(cluster.Admin))
	if err != nil {
		return nil, err
	}
	collections, err := collectionsOf(client)
	if err != nil {
		return nil, err
	}
	h := &Hand{traffic: newTraffic("", collections, Fault{})}
	h.traffic.strike = func(Fault) {} // what happens outside of the proxy is who has the hand to do
	h.traffic.count()
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

// Deletes tells whether a manager has asked to delete a pod. If not it was somebody
// else.
func (h *Hand) Deletes(namespace, pod string) bool {
	_, asked := h.deleted.Load("/api/v1/namespaces/" + namespace + "/pods/" + pod)
	return asked
}

// Arm has a fault of a kind happen once, at the next write, or at the next event
// of a resource where it is about one. Only faults of the proxy can be armed.
func (h *Hand) Arm(kind, resource string) error {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == kind })
	if i < 0 || !slices.Contains([]string{"late", "miss", "lose"}, kind) && Kinds[i].code == 0 {
		return fmt.Errorf("%q is no fault of the proxy", kind)
	}
	if Kinds[i].Resource != (resource != "") {
		return errors.New("a fault names a resource if it is about one, and only then")
	}
	h.traffic.arm(Fault{Kind: Kinds[i], Of: resource, At: 1})
	return nil
}

// Frozen says that the leader was frozen just now, and has wake called at the first
// write of the next one.
func (h *Hand) Frozen(wake func()) {
	h.traffic.mu.Lock()
	defer h.traffic.mu.Unlock()
	h.traffic.strikes(Fault{Kind: Kind{Name: "freeze"}}, 0)
	h.traffic.onWrite = wake
}

// Close ends the proxy, and what still passes it.
func (h *Hand) Close() { proxy.Close(h.server) }
