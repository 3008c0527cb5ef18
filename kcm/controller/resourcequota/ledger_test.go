package resourcequota

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// namespace is one with a quota of pods, as the API server has it and as two late
// informers show it.
type namespace struct {
	now     time.Time
	version int
	used    int
	onWay   []time.Time // when a pod was charged that is neither stored nor refused yet
	pods    int
	quotas  []past // what the quota's informer shows when its time has come
	changes []past // of pods: how many more there are
	late    time.Duration
	shown   int // pods that their informer shows
	cached  int // and its version
	wrote   int
	ledger  ledger
}

type past struct {
	at         time.Time
	version, n int
}

func (n *namespace) next() past {
	n.version++
	return past{at: n.now, version: n.version}
}

func (n *namespace) setUsed(used int) {
	n.used = used
	p := n.next()
	p.n = used
	n.quotas = append(n.quotas, p)
}

func (n *namespace) addPods(more int) {
	n.pods += more
	p := n.next()
	p.n = more
	n.changes = append(n.changes, p)
}

func onePod() charge { return charge{used: list("pods=1")} }

// show has the informer of pods show what is old enough.
func (n *namespace) show() {
	for len(n.changes) > 0 && n.now.Sub(n.changes[0].at) >= n.late {
		change := n.changes[0]
		n.changes = n.changes[1:]
		n.shown, n.cached = n.shown+change.n, change.version
		if change.n < 0 {
			n.ledger.free(quota("limit", "pods=9"), onePod(), charge{})
		}
	}
}

// look is a look of the loop at the quota as its informer shows it.
func (n *namespace) look(seen past) {
	if seen.version < n.wrote {
		return
	}
	count := func(n int) string { return "pods=" + strconv.Itoa(n) }
	q := countedQuota("limit", "pods=9", count(seen.n))
	q.ResourceVersion = strconv.Itoa(seen.version)
	sums := list(count(n.shown))
	isLate := func(_ corev1.ResourceName, version string) bool {
		return controller.IsOlder(strconv.Itoa(n.cached), version)
	}
	freed, _ := n.ledger.settle(q, sums, isLate, n.now)
	status, write := decide(q, sums, freed)
	used := int(status.Used.Pods().Value())
	switch {
	case !write:
	case seen.version != n.quotas[len(n.quotas)-1].version:
		n.ledger.restore(list(count(max(0, seen.n-used))))
	default:
		n.setUsed(used)
		n.wrote = n.version
	}
}

// TestASumIsNeverLowerThanWhatIsChargedAndComes has the API server charge pods, store
// them or not within a second, and delete them, while informers are late.
func TestASumIsNeverLowerThanWhatIsChargedAndComes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := &namespace{now: noon, version: 1, cached: 1}
		n.setUsed(0)
		n.late = time.Duration(rapid.IntRange(0, 20_000).Draw(t, "lateness of pods in ms")) * time.Millisecond
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"charge", "store", "refuse", "delete", "look", "look late", "wait"}).Draw(t, "step") {
			case "charge":
				n.setUsed(n.used + 1)
				n.onWay = append(n.onWay, n.now)
			case "store":
				if len(n.onWay) > 0 {
					n.onWay = n.onWay[1:]
					n.addPods(1)
				}
			case "refuse":
				n.onWay = n.onWay[min(1, len(n.onWay)):]
			case "delete":
				if n.pods > 0 {
					n.addPods(-1)
				}
			case "look":
				n.look(n.quotas[len(n.quotas)-1])
			case "look late":
				n.look(n.quotas[max(0, len(n.quotas)-2)])
			case "wait":
				n.now = n.now.Add(time.Duration(rapid.IntRange(1, 6_000).Draw(t, "ms")) * time.Millisecond)
				for len(n.onWay) > 0 && n.now.Sub(n.onWay[0]) > time.Second {
					at := n.now
					n.now = n.onWay[0].Add(time.Second)
					n.onWay = n.onWay[1:]
					n.addPods(1)
					n.now = at
				}
			}
			n.show()
			require.GreaterOrEqual(t, n.used, n.pods+len(n.onWay), "the API server has charged what is there and on its way")
		}
		for range len(n.onWay) {
			n.addPods(1)
		}
		n.onWay = nil
		for range 20 {
			n.now = n.now.Add(recountDelay)
			n.show()
			n.look(n.quotas[len(n.quotas)-1])
		}
		require.Equal(t, n.pods, n.used, "in the end the status says what is there")
	})
}
