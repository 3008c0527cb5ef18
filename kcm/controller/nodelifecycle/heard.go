package nodelifecycle

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// patience is for how long a node may be silent.
type patience struct {
	grace   time.Duration // since its last heartbeat
	startup time.Duration // the same before its kubelet has said how it is: that may take longer
}

// ends returns until when a node may be silent that was heard at some time.
func (p patience) ends(node *corev1.Node, heard time.Time) time.Time {
	// When it was created is by the API server's clock, and counts only until its kubelet has said something.
	if lastHeartbeat(node) != nil {
		return heard.Add(p.grace)
	}
	if created := node.CreationTimestamp.Time; created.After(heard) {
		heard = created
	}
	return heard.Add(p.startup)
}

// isSilent tells whether a node has been silent for too long, and nobody has said so yet.
func (c *Controller) isSilent(ctx context.Context, node *corev1.Node) (bool, error) {
	if isUnknown(node) || c.hasTime(node) {
		return false, nil
	}
	if c.live == nil {
		return true, nil
	}
	if err := c.lookTwice(ctx, node); err != nil {
		return false, err
	}
	return !c.hasTime(node), nil // it may have been heard while the question was on its way
}

// hasTime tells whether a node may be silent for longer. If so, it will be looked at when its time is
// up.
func (c *Controller) hasTime(node *corev1.Node) bool {
	heard, _ := c.heard.LoadOrStore(node.Name, time.Now())
	left := time.Until(c.patience.ends(node, heard.(time.Time)))
	// No notification comes of a heartbeat that does not.
	if left > 0 {
		c.loop.AddAfter(cache.MetaObjectToName(node), left)
	}
	return left > 0
}

// anyLease is whose Leases the loop knows to be newer than it was told: those of all nodes come by
// one watch, and if that is late for one, it is for all.
var anyLease = cache.ObjectName{Namespace: corev1.NamespaceNodeLease}

// lookTwice asks the API server for the Lease of a node that seems to be silent. If it is one of which
// no handler was told, the watch is late, and no node is called silent until it has caught up.
func (c *Controller) lookTwice(ctx context.Context, node *corev1.Node) error {
	if err := c.told.Observed(anyLease); err != nil {
		return err
	}
	leases, err := c.live.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + node.Name})
	if err != nil {
		return fmt.Errorf("ask for the Lease of node %s: %w", node.Name, err)
	}
	for _, lease := range leases.Items {
		c.told.Wrote(anyLease, lease.ResourceVersion)
	}
	return c.told.Observed(anyLease)
}

// newest is the newest version of Leases that a handler was told of, which may be older than what the
// cache has. It is a [controller.CachedVersion].
type newest struct{ version atomic.Value }

func (n *newest) note(version string) {
	if controller.IsOlder(n.LastStoreSyncResourceVersion(), version) {
		n.version.Store(version)
	}
}

// LastStoreSyncResourceVersion returns it, or that of an empty etcd.
func (n *newest) LastStoreSyncResourceVersion() string {
	version, _ := n.version.Load().(string)
	return cmp.Or(version, "1")
}
