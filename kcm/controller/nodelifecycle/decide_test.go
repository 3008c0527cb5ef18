package nodelifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	yes, no, unsaid = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	noSched, noExec = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute
)

// midnight is when each bubble begins.
var midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// testNode is one that was created long before midnight, and says of itself "Ready", "not DiskPressure",
// or "? Ready" where nobody knows.
func testNode(name string, says ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(midnight.Add(-24 * time.Hour)), Labels: map[string]string{},
	}}
	for _, what := range says {
		say(what)(node)
	}
	return node
}

// say has a node say so, as its kubelet would.
func say(what string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		c := corev1.NodeCondition{Status: yes, Reason: "KubeletSays", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}
		of := strings.TrimPrefix(what, "? ")
		if of != what {
			c.Status = unsaid
		}
		if of = strings.TrimPrefix(of, "not "); strings.HasPrefix(what, "not ") {
			c.Status = no
		}
		c.Type = corev1.NodeConditionType(of)
		for i, old := range node.Status.Conditions {
			if old.Type == c.Type {
				if old.Status == c.Status {
					c.LastTransitionTime = old.LastTransitionTime
				}
				node.Status.Conditions[i] = c
				return
			}
		}
		node.Status.Conditions = append(node.Status.Conditions, c)
	}
}

// taint is one of Kubernetes' own, by the end of its key, or somebody else's, "example.com/gpu".
func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	if !strings.Contains(key, "/") {
		key = "node.kubernetes.io/" + key
	}
	return corev1.Taint{Key: key, Effect: effect}
}

func tainted(taints ...corev1.Taint) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Spec.Taints = taints }
}

// inWords says which taints there are, in their order.
func inWords(taints []corev1.Taint) string {
	var words []string
	for _, t := range taints {
		words = append(words, strings.TrimPrefix(t.ToString(), "node.kubernetes.io/"))
	}
	return strings.Join(words, " ")
}

func TestTheTaintsOfANodeFollowFromWhatIsSaidOfIt(t *testing.T) {
	t.Parallel()
	cordoned := func(node *corev1.Node) { node.Spec.Unschedulable = true }
	for behaviour, test := range map[string]struct {
		says   string
		taints []corev1.Taint
		turn   turn
		want   string
		edits  []func(*corev1.Node)
	}{
		"a node that is well has none":                       {says: "Ready, not MemoryPressure, not DiskPressure, not PIDPressure, not NetworkUnavailable"},
		"not Ready keeps pods away":                          {says: "not Ready", want: "not-ready:NoSchedule"},
		"unknown keeps pods away":                            {says: "? Ready", want: "unreachable:NoSchedule"},
		"too little memory keeps pods away":                  {says: "Ready, MemoryPressure", want: "memory-pressure:NoSchedule"},
		"too little disk keeps pods away":                    {says: "Ready, DiskPressure", want: "disk-pressure:NoSchedule"},
		"too many processes keep pods away":                  {says: "Ready, PIDPressure", want: "pid-pressure:NoSchedule"},
		"a network that is not there keeps pods away":        {says: "Ready, NetworkUnavailable", want: "network-unavailable:NoSchedule"},
		"what nobody knows of a pressure does not":           {says: "Ready, ? MemoryPressure"},
		"a cordon keeps pods away":                           {says: "Ready", edits: []func(*corev1.Node){cordoned}, want: "unschedulable:NoSchedule"},
		"what somebody else says does not":                   {says: "Ready, Lunch"},
		"two problems are two taints":                        {says: "? Ready, DiskPressure", want: "unreachable:NoSchedule disk-pressure:NoSchedule"},
		"a taint whose cause is gone goes":                   {says: "Ready", taints: []corev1.Taint{taint("not-ready", noSched), taint("disk-pressure", noSched), taint("unschedulable", noSched)}},
		"the taint of a new node goes":                       {taints: []corev1.Taint{taint("not-ready", noSched)}},
		"a taint of somebody else's stays":                   {says: "Ready", taints: []corev1.Taint{taint("example.com/gpu", noSched), taint("not-ready", noSched)}, want: "example.com/gpu:NoSchedule"},
		"also one with our key and another effect":           {says: "Ready", taints: []corev1.Taint{taint("disk-pressure", noExec)}, want: "disk-pressure:NoExecute"},
		"also one that nobody evicts for":                    {says: "Ready", taints: []corev1.Taint{taint("not-ready", corev1.TaintEffectPreferNoSchedule)}, want: "not-ready:PreferNoSchedule"},
		"also out-of-service":                                {says: "not Ready", taints: []corev1.Taint{taint("out-of-service", noExec)}, want: "out-of-service:NoExecute not-ready:NoSchedule"},
		"a lost node that waits for its turn keeps its pods": {says: "? Ready", turn: waits, want: "unreachable:NoSchedule"},
		"one whose turn it is loses them":                    {says: "? Ready", turn: granted, want: "unreachable:NoSchedule unreachable:NoExecute"},
		"also one that says that it is not ready":            {says: "not Ready", turn: granted, want: "not-ready:NoSchedule not-ready:NoExecute"},
		"it needs no second turn":                            {says: "? Ready", turn: waits, taints: []corev1.Taint{taint("unreachable", noExec)}, want: "unreachable:NoExecute unreachable:NoSchedule"},
		"nor when it falls silent":                           {says: "? Ready", turn: waits, taints: []corev1.Taint{taint("not-ready", noExec)}, want: "unreachable:NoSchedule unreachable:NoExecute"},
		"nor when it is heard and is not ready":              {says: "not Ready", turn: waits, taints: []corev1.Taint{taint("unreachable", noExec)}, want: "not-ready:NoSchedule not-ready:NoExecute"},
		"when it is ready, both taints go":                   {says: "Ready", taints: []corev1.Taint{taint("unreachable", noSched), taint("unreachable", noExec)}},
		"it has no turn then":                                {says: "Ready", turn: granted},
		"while nobody is evicted, it keeps its pods":         {says: "? Ready", turn: never, taints: []corev1.Taint{taint("unreachable", noExec)}, want: "unreachable:NoSchedule"},
		"a node of which nothing is said keeps what evicts":  {turn: waits, taints: []corev1.Taint{taint("unreachable", noExec)}, want: "unreachable:NoExecute"},
		"also one of which nobody understands what is said": {turn: waits, taints: []corev1.Taint{taint("unreachable", noExec)}, want: "unreachable:NoExecute", edits: []func(*corev1.Node){func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: "Perhaps"}}
		}}},
		"while nobody is evicted, it does not": {turn: never, taints: []corev1.Taint{taint("unreachable", noExec)}},
		"of two conditions of one type the first counts": {says: "Ready", edits: []func(*corev1.Node){func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Ready", Status: no})
		}}},
		"a turn does not take the taint off from one that has none": {turn: granted},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			node := testNode("node-1")
			for what := range strings.SplitSeq(test.says, ", ") {
				if what != "" {
					say(what)(node)
				}
			}
			tainted(test.taints...)(node)
			for _, edit := range test.edits {
				edit(node)
			}
			before := node.DeepCopy()
			p := decide(situation{node: node, turn: test.turn, now: metav1.Now()})
			assert.Equal(t, test.want, inWords(p.taints), "taints of a node that says %q and has the taints %q; %s", test.says, inWords(test.taints), test.turn)
			assert.Equal(t, inWords(p.taints) != inWords(test.taints), p.changesTaints, "whether that is written")
			assert.Empty(t, p.conditions)
			assert.Equal(t, before, node, "the cache's node is not changed")
		})
	}
	t.Run("a taint says when it was added, and one that is there keeps its time and value", func(t *testing.T) {
		t.Parallel()
		then, now := metav1.NewTime(midnight), metav1.NewTime(midnight.Add(time.Hour))
		there := taint("unreachable", noSched)
		there.TimeAdded, there.Value = &then, "why"
		node := testNode("node-1", "? Ready")
		tainted(there)(node)
		evicted := taint("unreachable", noExec)
		evicted.TimeAdded = &now
		assert.Equal(t, []corev1.Taint{there, evicted}, decide(situation{node: node, turn: granted, now: now}).taints)
	})
}

func TestOfASilentNodeNobodyKnowsWhatOnlyItsKubeletCould(t *testing.T) {
	t.Parallel()
	created, heard, now := metav1.NewTime(midnight.Add(-24*time.Hour)), metav1.NewTime(midnight), metav1.NewTime(midnight.Add(time.Hour))
	told := func(all []corev1.NodeCondition) string {
		var words []string
		for _, c := range all {
			beat := map[metav1.Time]string{created: "created", heard: "heard"}[c.LastHeartbeatTime]
			words = append(words, fmt.Sprintf("%s %s %s %q %s", c.Type, c.Status, c.Reason, c.Message, beat))
			assert.Equal(t, now, c.LastTransitionTime)
		}
		return strings.Join(words, "; ")
	}
	stopped := func(of string) string {
		return of + ` Unknown NodeStatusUnknown "Kubelet stopped posting node status." heard`
	}
	neverSaid := func(of string) string {
		return of + ` Unknown NodeStatusNeverUpdated "Kubelet never posted node status." created`
	}
	for behaviour, test := range map[string]struct {
		says []string
		want []string
	}{
		"what it has said is over, but for its network":  {[]string{"Ready", "not MemoryPressure", "not DiskPressure", "PIDPressure", "not NetworkUnavailable"}, []string{stopped("Ready"), stopped("MemoryPressure"), stopped("DiskPressure"), stopped("PIDPressure")}},
		"of what it has never said there is nothing":     {nil, []string{neverSaid("Ready"), neverSaid("MemoryPressure"), neverSaid("DiskPressure"), neverSaid("PIDPressure")}},
		"some it may have said, and not others":          {[]string{"not Ready", "DiskPressure"}, []string{stopped("Ready"), neverSaid("MemoryPressure"), stopped("DiskPressure"), neverSaid("PIDPressure")}},
		"what nobody knows already is not written again": {[]string{"Ready", "? MemoryPressure", "? DiskPressure", "? PIDPressure"}, []string{stopped("Ready")}},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			node := testNode("node-1", test.says...)
			for i := range node.Status.Conditions {
				node.Status.Conditions[i].LastHeartbeatTime = heard
			}
			p := decide(situation{node: node, silent: true, turn: granted, now: now})
			assert.Equal(t, strings.Join(test.want, "; "), told(p.conditions), "conditions of a node that has said %q", test.says)
			assert.False(t, p.changesTaints, "taints follow when these are seen")
		})
	}
}

func TestANodeMayBeSilentForItsGracePeriod(t *testing.T) {
	t.Parallel()
	p := patience{grace: 50 * time.Second, startup: time.Minute}
	for behaviour, test := range map[string]struct {
		node           *corev1.Node
		created, heard time.Duration
		want           time.Duration
	}{
		"since it was heard":                                           {testNode("node-1", "Ready"), 0, 100 * time.Second, 150 * time.Second},
		"also just after it was created":                               {testNode("node-1", "Ready"), 0, time.Second, 51 * time.Second},
		"one that has not said how it is may be so since its creation": {testNode("node-1"), 0, -time.Hour, 60 * time.Second},
		"also if something else was said of it":                        {testNode("node-1", "not NetworkUnavailable"), 0, -time.Hour, 60 * time.Second},
		"or since its Lease was renewed":                               {testNode("node-1"), 0, 100 * time.Second, 160 * time.Second},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			test.node.CreationTimestamp = metav1.NewTime(midnight.Add(test.created))
			assert.Equal(t, test.want, p.ends(test.node, midnight.Add(test.heard)).Sub(midnight),
				"until when after midnight a node of midnight may be silent that was heard %v later, with a grace period of 50 s, and 60 s for a start", test.heard)
		})
	}
}
