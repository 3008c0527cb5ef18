package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// refusals remember on which nodes the API server has refused to create or to
// delete a pod of a DaemonSet, and when it last has. The zero value is ready to
// use.
type refusals struct {
	mu    sync.Mutex
	bySet map[cache.ObjectName]map[string]time.Time
}

func (r *refusals) note(set cache.ObjectName, node string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bySet == nil {
		r.bySet = map[cache.ObjectName]map[string]time.Time{}
	}
	if r.bySet[set] == nil {
		r.bySet[set] = map[string]time.Time{}
	}
	r.bySet[set][node] = now
}

// last returns the zero time for a node on which nothing was refused.
func (r *refusals) last(set cache.ObjectName, node string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bySet[set][node]
}

// forget drops what was before a time.
func (r *refusals) forget(before time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for set, nodes := range r.bySet {
		maps.DeleteFunc(nodes, func(_ string, at time.Time) bool { return at.Before(before) })
		if len(nodes) == 0 {
			delete(r.bySet, set)
		}
	}
}

// noting is a PodControl that notes on which nodes creations are refused.
type noting struct {
	controller.PodControl
	note func(pod *corev1.Pod)
}

func (n noting) Create(ctx context.Context, set runtime.Object, pod *corev1.Pod) (*corev1.Pod, error) {
	created, err := n.PodControl.Create(ctx, set, pod)
	if err != nil {
		n.note(pod)
	}
	return created, err
}

// inTurn returns the places in the order of their turns. That is by name as long
// as nothing is refused. Otherwise the places where nothing was come first, and
// then those where something was refused longest ago, so that a node whose pod is
// always refused keeps no other waiting. Among themselves they are scattered:
// nodes whose names are alike are often refused alike, and a row of them at the
// beginning would end one try after the other.
func inTurn(places []place) []place {
	if !slices.ContainsFunc(places, func(p place) bool { return !p.refused.IsZero() }) {
		return places
	}
	return slices.SortedFunc(slices.Values(places), func(a, b place) int {
		return cmp.Or(a.refused.Compare(b.refused), cmp.Compare(scattered(a.node), scattered(b.node)))
	})
}

// scattered returns a number that has nothing to do with the order of names.
func scattered(node string) uint64 {
	sum := sha256.Sum256([]byte(node))
	return binary.BigEndian.Uint64(sum[:])
}
