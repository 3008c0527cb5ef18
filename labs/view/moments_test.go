package view

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kcm-book/kcm-book/kcm/trace"
	"github.com/kcm-book/kcm-book/labs/history"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// object is what a watch brings, from what differs.
func object(name, owner string, fields map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: maps.Clone(fields)}
	o.SetNamespace("shop")
	o.SetName(name)
	o.SetUID(types.UID(name))
	o.SetResourceVersion("7")
	if owner != "" {
		_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"uid": owner, "controller": true}},
			"metadata", "ownerReferences")
	}
	return o
}

func podThat(ready string, fields map[string]any) *unstructured.Unstructured {
	status := map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": ready}}}
	maps.Copy(status, fields)
	return object("web-a", "web-1", map[string]any{"spec": map[string]any{"nodeName": "node-0"}, "status": status})
}

// lines are what a teller has said.
func lines(v *View) (all []string) {
	for _, m := range v.moments {
		all = append(all, m.Says)
	}
	return all
}

func step(what trace.Kind, more func(*trace.Step)) trace.Step {
	s := trace.Step{At: began, What: what, Loop: "replicaset-controller", Namespace: "shop", Name: "web-1", Sync: 3}
	if more != nil {
		more(&s)
	}
	return s
}

func TestAPodIsToldByWhatCanBeSeenOfIt(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	waiting := object("web-a", "web-1", map[string]any{"status": map[string]any{"phase": "Pending"}})
	ending := podThat("True", nil)
	now := metav1.NewTime(began)
	ending.SetDeletionTimestamp(&now)
	for _, change := range []history.Change{
		{Type: watch.Added, Resource: "pods", Object: waiting, Seen: began},
		{Type: watch.Modified, Resource: "pods", Object: podThat("False", nil), Seen: began},
		{Type: watch.Modified, Resource: "pods", Object: podThat("True", nil), Seen: began},
		{Type: watch.Modified, Resource: "pods", Object: podThat("True", map[string]any{"hostIP": "10.0.0.1"}), Seen: began},
		{Type: watch.Modified, Resource: "pods", Object: ending, Seen: began},
		{Type: watch.Deleted, Resource: "pods", Object: ending, Seen: began},
	} {
		v.change(change)
	}
	assert.Equal(t, []string{
		"pod web-a is there: waiting", "pod web-a: starting", "pod web-a: ready",
		"pod web-a was written, and shows nothing new", "pod web-a: ending", "pod web-a is gone",
	}, lines(v))
	assert.Empty(t, v.scene, "what is there after the pod is gone")
}

func TestANodeIsToldByWhatOthersKnowOfIt(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	node := func(ready string, spec map[string]any) *unstructured.Unstructured {
		status := map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready}}}
		return object("node-1", "", map[string]any{"spec": spec, "status": status})
	}
	taint := map[string]any{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
	tainted := map[string]any{"podCIDR": "10.9.0.0/28", "taints": []any{taint}}
	healed := map[string]any{"podCIDR": "10.9.0.0/28"}
	for _, seen := range []*unstructured.Unstructured{
		node("True", nil), node("True", healed), node("Unknown", healed), node("Unknown", tainted), node("True", healed),
	} {
		v.change(history.Change{Type: watch.Modified, Resource: "nodes", Object: seen, Seen: began})
	}
	assert.Equal(t, []string{
		"node node-1 is there: Ready=True", "node node-1: range 10.9.0.0/28", "node node-1: Ready=Unknown",
		"node node-1: taints unreachable:NoSchedule", "node node-1: Ready=True; no taints",
	}, lines(v))
}

func TestWhatADeploymentHasIsToldWhereItDiffers(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	deployment := func(available int64) *unstructured.Unstructured {
		return object("web", "", map[string]any{
			"spec": map[string]any{"replicas": int64(3),
				"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": "registry/web:1"}}}}},
			"status": map[string]any{"availableReplicas": available},
		})
	}
	v.change(history.Change{Type: watch.Added, Resource: "deployments", Object: deployment(0), Seen: began})
	v.change(history.Change{Type: watch.Modified, Resource: "deployments", Object: deployment(2), Seen: began})
	assert.Equal(t,
		[]string{"deployment web is there: want 3; image web:1", "deployment web: available 2, was 0"}, lines(v))
}

func TestWhatTheControlPlaneHasForItselfIsNotShown(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	pod := object("etcd", "", nil)
	pod.SetNamespace("kube-system")
	v.change(history.Change{Type: watch.Added, Resource: "pods", Object: pod, Seen: began})
	v.Step("kcm-1", step(trace.Begun, func(s *trace.Step) { s.Namespace = "kube-system" }))
	v.Step("kcm-1", step(trace.Begun, func(s *trace.Step) { s.Namespace = "" }))
	assert.Empty(t, lines(v))
}

func TestASyncIsToldFromItsBeginningToItsEnd(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	v.Step("kcm-1", step(trace.Queued, func(s *trace.Step) { s.Seconds = 0.1 }))
	v.Step("kcm-1", step(trace.Begun, nil))
	v.Step("kcm-1",
		step(trace.Observed, func(s *trace.Step) { s.Facts = map[string]any{"want": 3.0, "active": 2.0, "mayAct": true} }))
	v.Step("kcm-1", step(trace.Decided, func(s *trace.Step) { s.Facts = map[string]any{"create": 1.0} }))
	v.Step("kcm-1", step(trace.Done, func(s *trace.Step) {
		s.Request, s.Code, s.Seconds = "POST /api/v1/namespaces/shop/pods", 201, 0.004
	}))
	v.Step("kcm-1", step(trace.Ended, func(s *trace.Step) { s.Seconds = 0.0051 }))
	const web = "replicaset-controller shop/web-1 "
	assert.Equal(t, []string{
		web + "is queued, and due in 100ms", "kcm-1 leads", web + "begins sync 3",
		web + "observes active:2 mayAct:true want:3",
		web + "decides create:1", web + "POST pods was answered 201 after 4 ms", web + "ends after 5.1 ms",
	}, lines(v))

	v.Step("kcm-1", step(trace.Begun, func(s *trace.Step) { s.Sync = 4 }))
	node := v.scene["key:kcm-1/replicaset-controller/shop/web-1"]
	for _, former := range []string{"observed", "decided", "done", "more", "seconds", "error"} {
		assert.NotContains(t, node, former, "what the sync before has left")
	}
}

func TestAMomentIsNotChangedByThoseThatFollow(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	v.Step("kcm-1", step(trace.Begun, nil))
	var texts []string
	for i := range 8 {
		v.Step("kcm-1",
			step(trace.Done, func(s *trace.Step) { s.Request, s.Code = "POST /api/v1/namespaces/shop/pods", 201+i }))
		text, err := json.Marshal(v.moments[len(v.moments)-1])
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	for i, m := range v.moments[len(v.moments)-8:] {
		text, err := json.Marshal(m)
		require.NoError(t, err)
		assert.Equal(t, texts[i], string(text))
	}
	node := v.scene["key:kcm-1/replicaset-controller/shop/web-1"]
	assert.Len(t, node["done"], most)
	assert.Equal(t, 3, node["more"], "writes that are only counted")
}

func TestALeaderThatWakesUpIsNotTheLeaderBecauseItIsBusy(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	v.manager(began, "kcm-1", "leads")
	v.manager(began, "kcm-1", "frozen")
	v.manager(began, "kcm-2", "leads")
	v.manager(began, "kcm-1", "woken")
	v.Step("kcm-1", step(trace.Begun, nil))
	assert.Equal(t, "kcm-2", v.leader)
	assert.Equal(t, "woken", v.scene["manager:kcm-1"]["state"])
}

func TestTheQueueOfAManagerGoesWithIt(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	v.Step("kcm-1", step(trace.Queued, func(s *trace.Step) { s.Seconds = 60 }))
	v.manager(began, "kcm-1", "gone")
	assert.NotContains(t, v.scene, "key:kcm-1/replicaset-controller/shop/web-1")
}

func TestOfManagersThatAreGoneTheLastOneIsShown(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	v.manager(began, "kcm-1", "gone")
	v.manager(began, "kcm-2", "waits")
	assert.Contains(t, v.scene, "manager:kcm-1")
	v.manager(began, "kcm-2", "gone")
	assert.NotContains(t, v.scene, "manager:kcm-1")
	assert.Contains(t, v.scene, "manager:kcm-2")
}

func TestToDecideToDoNothingIsADecision(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	v.Step("kcm-1", step(trace.Begun, nil))
	v.Step("kcm-1", step(trace.Decided, nil))
	assert.Equal(t, map[string]any{}, v.scene["key:kcm-1/replicaset-controller/shop/web-1"]["decided"])
}

func TestWhatHoldsIsUnknownOnceItDoesNotCountAnyMore(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	v.holds("replicasets")
	v.broken("too-few", "web has 2 of 3")
	v.StopJudging("the API server is away")
	v.broken("too-many", "web has 4 of 3")
	assert.Equal(t, "unknown", v.scene["invariant:too-many"]["state"])
	assert.Equal(t, "broken", v.scene["invariant:too-few"]["state"], "what was broken stays so")
	said := lines(v)
	assert.Equal(t, "The invariants do not count any more: the API server is away", said[len(said)-1])
}

func TestOnlyWhatIsRecordedIsSaidToHold(t *testing.T) {
	t.Parallel()
	v := New("invariants")
	v.holds("replicasets")
	assert.Contains(t, v.scene, "invariant:too-many")
	assert.NotContains(t, v.scene, "invariant:counted-twice", "about Jobs")
}

func TestWhatWasNotThereIsNotSaidToHaveBeen(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	web := object("web", "", map[string]any{"spec": map[string]any{"replicas": int64(3)}})
	v.change(history.Change{Type: watch.Added, Resource: "deployments", Object: web, Seen: began})
	revised := web.DeepCopy()
	revised.SetAnnotations(map[string]string{"deployment.kubernetes.io/revision": "1"})
	v.change(history.Change{Type: watch.Modified, Resource: "deployments", Object: revised, Seen: began})
	assert.Equal(t, "deployment web: revision 1", lines(v)[1])
}

func TestToWaitForTheCacheIsNoError(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	behind := "the cache is behind: it is at version 3, and shop/web-1 has written version 4"
	v.Step("kcm-1", step(trace.Ended, func(s *trace.Step) { s.Error = behind }))
	assert.Equal(t, []string{"replicaset-controller shop/web-1 waits: " + behind}, lines(v))
	node := v.scene["key:kcm-1/replicaset-controller/shop/web-1"]
	assert.Equal(t, behind, node["waits"])
	assert.NotContains(t, node, "error")
}

func TestWhatIsLostIsSaid(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	v.Step("kcm-1", trace.Step{At: began, What: trace.Lost, Lost: 12})
	assert.Equal(t, []string{"12 steps of kcm-1 are lost: they came too fast"}, lines(v))
}

func TestTheMomentsLeadToTheScene(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	v.change(history.Change{Type: watch.Added, Resource: "pods", Object: podThat("False", nil), Seen: began})
	v.Step("kcm-1", step(trace.Begun, nil))
	v.Step("kcm-1", step(trace.Ended, func(s *trace.Step) { s.Error = "no" }))
	v.change(history.Change{Type: watch.Modified, Resource: "pods", Object: podThat("True", nil), Seen: began})
	v.Step("kcm-1", step(trace.Begun, nil))
	scene := Scene{}
	for _, m := range v.moments {
		scene.Apply(m)
	}
	assert.Equal(t, v.scene, scene)
	last := v.moments[4].Set["web-a"]
	assert.Equal(t, Node{"state": "ready"}, last, "what a moment says of a pod that has become ready")
}

func TestAPartBeginsWithWhatIsThereThen(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	v.change(history.Change{Type: watch.Added, Resource: "pods", Object: podThat("False", nil), Seen: began})
	v.change(history.Change{Type: watch.Modified, Resource: "pods", Object: podThat("True", nil), Seen: began})
	v.change(history.Change{Type: watch.Deleted, Resource: "pods", Object: podThat("True", nil), Seen: began})
	part := v.between(1, 99)
	require.Len(t, part, 2)
	assert.Equal(t, "ready", part[0].Set["web-a"]["state"])
	assert.Equal(t, "pod", part[0].Set["web-a"]["kind"], "a node that was there before is whole")
	assert.Equal(t, []int{0, 1}, []int{part[0].N, part[1].N})
	assert.Empty(t, v.between(99, 99))
}
