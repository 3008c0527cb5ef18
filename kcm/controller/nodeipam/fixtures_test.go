package nodeipam

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func init() {
	controller.ReallyCrash.Store(true) // or what panics would be tried again
	// One of the handlers sleeps by the real time, in a bubble for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1:1]
}

// cutInto returns the ranges of "10.9.0.0/26 28": four pieces.
func cutInto(words ...string) (ranges Ranges) {
	for _, w := range words {
		var cluster string
		var bits int
		if _, err := fmt.Sscan(w, &cluster, &bits); err != nil {
			panic(err)
		}
		ranges.Pools = append(ranges.Pools, Pool{netip.MustParsePrefix(cluster), bits})
	}
	return ranges
}

// four is a cluster with four pieces, .0, .16, .32 and .48.
var four = cutInto("10.9.0.0/26 28")

// String says which pieces have holders, by their numbers: "0 1x2 3".
func (p *pool) String() string {
	var held []string
	for i, n := range p.holders {
		switch {
		case n == 1:
			held = append(held, fmt.Sprint(i))
		case n != 0:
			held = append(held, fmt.Sprintf("%dx%d", i, n))
		}
	}
	return cmp.Or(strings.Join(held, " "), "none")
}

// node is one of a name, which is its UID as well unless that is named too ("a/2"), with
// ranges. All nodes are of one age unless told.
func node(name string, ranges ...string) *corev1.Node {
	name, generation, _ := strings.Cut(name, "/")
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name + generation)}}
	if len(ranges) > 0 {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = ranges[0], ranges
	}
	return n
}

// going is a node that is being deleted.
func going(n *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	n.DeletionTimestamp, n.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/hold"}
	return n
}

// bornAt is a node that was created so many seconds after another one.
func bornAt(second int64, n *corev1.Node) *corev1.Node {
	n.CreationTimestamp = metav1.NewTime(time.Unix(second, 0))
	return n
}
