package resourcequota

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
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
	quotas  []past // the versions of the quota
	seen    int    // which of them its informer shows
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

// What may become of a write.
const (
	arrives = "it arrives"
	isLost  = "its answer is lost"
	isStuck = "it does not arrive"
)

// look is a look of the loop at the quota as its informer shows it.
func (n *namespace) look(ago int, write string) {
	n.seen = max(n.seen, len(n.quotas)-1-ago)
	seen := n.quotas[n.seen]
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
	status, differs := decide(q, sums, freed)
	if !differs {
		return
	}
	used := int(status.Used.Pods().Value())
	freed = list(count(max(0, seen.n-used)))
	isNewest := n.seen == len(n.quotas)-1
	if isNewest && write != isStuck {
		n.setUsed(used)
	}
	switch {
	case write != arrives:
		n.ledger.doubt(q, freed)
	case isNewest:
		n.wrote = n.version
	default:
		n.ledger.restore(freed)
	}
}

// upTo draws a time up to one of some bounds. Of a range of milliseconds, most that
// are drawn would be so short that nothing is ever late.
func upTo(t *rapid.T, label string, bounds ...time.Duration) time.Duration {
	bound := rapid.SampledFrom(bounds).Draw(t, label+", at most")
	return bound * time.Duration(rapid.IntRange(0, 7).Draw(t, label+", in sevenths of that")) / 7
}

func TestFree(t *testing.T) {
	t.Parallel()
	ending, lasting := scopes{corev1.ResourceQuotaScopeTerminating: present}, scopes{corev1.ResourceQuotaScopeNotTerminating: present}
	all := quota("all", "pods=10 cpu=10")
	ofLasting := quota("lasting", "pods=10 cpu=10", corev1.ResourceQuotaScopeNotTerminating)
	for _, c := range []struct {
		name, situation string
		quota           *corev1.ResourceQuota
		before, after   charge
		gone, then      string
		want            string
	}{
		{"of an object that has gone, all that it used is free", "a pod of 2 CPU has gone",
			all, chargedFor("pods=1 cpu=2", lasting), charge{}, "", "pods=9 cpu=9", "gone: cpu=2 pods=1; then: cpu=7 pods=8"},
		{"of an object that uses less, the difference is free", "a pod of 3 CPU has 1 CPU now",
			all, chargedFor("pods=1 cpu=3", lasting), chargedFor("pods=1 cpu=1", lasting), "", "pods=9 cpu=9", "gone: cpu=2; then: cpu=7 pods=9"},
		{"an object that uses more frees nothing", "a pod of 1 CPU has 3 CPU now, and 1 CPU had gone before",
			all, chargedFor("pods=1 cpu=1", lasting), chargedFor("pods=1 cpu=3", lasting), "cpu=1", "cpu=9", "gone: cpu=1; then: cpu=9"},
		{"of an object that the quota does not count nothing is free", "a pod with a deadline has gone, and the quota is for pods without one",
			ofLasting, chargedFor("pods=1", ending), charge{}, "", "pods=9", "gone: nothing; then: pods=9"},
		{"an object that leaves the scopes frees all that it uses", "a pod of 2 CPU has got a deadline, and the quota is for pods without one",
			ofLasting, chargedFor("pods=1 cpu=2", lasting), chargedFor("pods=1 cpu=2", ending), "", "pods=9 cpu=9", "gone: cpu=2 pods=1; then: cpu=7 pods=8"},
		{"an object that comes into the scopes frees nothing", "a pod has lost its deadline, and the quota is for pods without one",
			ofLasting, chargedFor("pods=1", ending), chargedFor("pods=1", lasting), "", "pods=9", "gone: nothing; then: pods=9"},
		{"what has gone before stays gone", "a pod has gone before, and now another one",
			all, chargedFor("pods=1", lasting), charge{}, "pods=1", "pods=9", "gone: pods=2; then: pods=8"},
		{"what has gone is not missed as well", "the status said 9 pods at an earlier look, and one of them has gone",
			all, chargedFor("pods=1", lasting), charge{}, "", "pods=9", "gone: pods=1; then: pods=8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := ledger{gone: list(c.gone), then: list(c.then)}
			l.free(c.quota, c.before, c.after)
			gone := quotav1.RemoveZeros(quotav1.Mask(l.gone, quotav1.ResourceNames(c.quota.Spec.Hard)))
			then := quotav1.Mask(l.then, quotav1.ResourceNames(list(c.then)))
			assert.Equal(t, c.want, "gone: "+written(gone)+"; then: "+written(then), c.situation)
		})
	}
}

// TestASumIsNeverLowerThanWhatIsChargedAndComes has the API server charge pods, store
// them or not within a second, and delete them, while informers are late and answers
// are lost.
func TestASumIsNeverLowerThanWhatIsChargedAndComes(t *testing.T) {
	t.Parallel()
	// Much waits: what has happened is late, and still is when the next thing happens.
	steps := []string{"charge", "charge", "store", "refuse", "delete", "look", "look late", "look and fail", "wait", "wait", "wait", "wait"}
	rapid.Check(t, func(t *rapid.T) {
		n := &namespace{now: noon, version: 1, cached: 1}
		n.setUsed(0)
		n.late = upTo(t, "lateness of pods", 20*time.Second)
		for range 10 * rapid.IntRange(1, 30).Draw(t, "tens of steps") {
			switch rapid.SampledFrom(steps).Draw(t, "step") {
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
				n.look(0, arrives)
			case "look late":
				n.look(rapid.IntRange(1, 3).Draw(t, "versions ago"), arrives)
			case "look and fail":
				n.look(0, rapid.SampledFrom([]string{isLost, isStuck}).Draw(t, "what becomes of the write"))
			case "wait":
				n.now = n.now.Add(upTo(t, "wait", time.Second, 7*time.Second))
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
			n.look(0, arrives)
		}
		require.Equal(t, n.pods, n.used, "in the end the status says what is there")
	})
}

func TestWhatAnInformerIsAboutToShowIsNotTakenForWhatNeverComes(t *testing.T) {
	t.Parallel()
	n := &namespace{now: noon, version: 1, cached: 1, late: 5300 * time.Millisecond}
	wait := func(d time.Duration) { n.now = n.now.Add(d); n.show() }
	n.setUsed(2)
	n.look(0, arrives)
	wait(100 * time.Millisecond)
	n.addPods(1)
	wait(400 * time.Millisecond)
	n.addPods(1)
	wait(5 * time.Second)
	require.Equal(t, 1, n.shown, "pods that are shown when the loop looks again")
	n.look(0, arrives)
	require.Equal(t, 2, n.used, "both were stored, and the second will be shown in 300 milliseconds")
}

func TestAChargeOfNothingIsFoundInFiveSecondsInWhichNothingElseComes(t *testing.T) {
	t.Parallel()
	n := &namespace{now: noon, version: 1, cached: 1}
	n.setUsed(1) // and nothing is stored
	for range 20 {
		n.look(0, arrives)
		n.now = n.now.Add(recountDelay / 2)
		n.setUsed(n.used + 1)
		n.addPods(1)
		n.show()
		n.now = n.now.Add(recountDelay / 2)
	}
	require.Equal(t, 21, n.used, "the pod that has come may be the one that was charged first")
	for range 2 {
		n.look(0, arrives)
		n.now = n.now.Add(recountDelay)
	}
	n.look(0, arrives)
	require.Equal(t, 20, n.used, "no pod has come for five seconds")
}

func TestWhatCouldNotBeCountedIsNotMissingAsSoonAsItCan(t *testing.T) {
	t.Parallel()
	var l ledger
	q := countedQuota("limit", "pods=9 count/comets=9", "pods=1 count/comets=2")
	punctual := func(corev1.ResourceName, string) bool { return false }
	freed := func(sums string, after time.Duration) string {
		all, _ := l.settle(q, list(sums), punctual, noon.Add(after))
		return written(quotav1.RemoveZeros(all))
	}
	require.Equal(t, "nothing", freed("pods=1", 0))
	require.Equal(t, "nothing", freed("pods=1 count/comets=1", 6*time.Second), "the other one may be on its way")
	require.Equal(t, "count/comets=1", freed("pods=1 count/comets=1", 11*time.Second))
}
