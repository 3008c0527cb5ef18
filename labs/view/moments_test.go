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
		_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"uid": owner, "controller": true}}, "metadata", "ownerReferences")
	}
	return o
}

func podThat(ready string, fields map[string]any) *unstructured.Unstructured {
	status := map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": ready}}}
	maps.Copy(status, fields)
	return object("web-a", "web-1", map[string]any{"spec": map[string]any{"nodeName": "node-0"}, "status": status})
}

// lines are what a teller has said.
func lines(t *teller) (all []string) {
	for _, m := range t.moments {
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
	teller := newTeller()
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
		teller.change(change)
	}
	assert.Equal(t, []string{
		"pod web-a is there: waiting", "pod web-a: starting", "pod web-a: ready",
		"pod web-a was written, and shows nothing new", "pod web-a: ending", "pod web-a is gone",
	}, lines(teller))
	assert.Empty(t, teller.scene, "what is there after the pod is gone")
}

func TestWhatADeploymentHasIsToldWhereItDiffers(t *testing.T) {
	t.Parallel()
	teller := newTeller()
	deployment := func(available int64) *unstructured.Unstructured {
		return object("web", "", map[string]any{
			"spec":   map[string]any{"replicas": int64(3), "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": "registry/web:1"}}}}},
			"status": map[string]any{"availableReplicas": available},
		})
	}
	teller.change(history.Change{Type: watch.Added, Resource: "deployments", Object: deployment(0), Seen: began})
	teller.change(history.Change{Type: watch.Modified, Resource: "deployments", Object: deployment(2), Seen: began})
	assert.Equal(t, []string{"deployment web is there: want 3; image web:1", "deployment web: available 2, was 0"}, lines(teller))
}

func TestWhatTheControlPlaneHasForItselfIsNotShown(t *testing.T) {
	t.Parallel()
	teller := newTeller()
	pod := object("etcd", "", nil)
	pod.SetNamespace("kube-system")
	teller.change(history.Change{Type: watch.Added, Resource: "pods", Object: pod, Seen: began})
	teller.step("kcm-1", step(trace.Begun, func(s *trace.Step) { s.Namespace = "kube-system" }))
	teller.step("kcm-1", step(trace.Begun, func(s *trace.Step) { s.Namespace = "" }))
	assert.Empty(t, lines(teller))
}

func TestASyncIsToldFromItsBeginningToItsEnd(t *testing.T) {
	t.Parallel()
	teller := newTeller()
	teller.step("kcm-1", step(trace.Queued, func(s *trace.Step) { s.Seconds = 0.1 }))
	teller.step("kcm-1", step(trace.Begun, nil))
	teller.step("kcm-1", step(trace.Observed, func(s *trace.Step) { s.Facts = map[string]any{"want": 3.0, "active": 2.0, "mayAct": true} }))
	teller.step("kcm-1", step(trace.Decided, func(s *trace.Step) { s.Facts = map[string]any{"create": 1.0} }))
	teller.step("kcm-1", step(trace.Done, func(s *trace.Step) {
		s.Request, s.Code, s.Seconds = "POST /api/v1/namespaces/shop/pods", 201, 0.004
	}))
	teller.step("kcm-1", step(trace.Ended, func(s *trace.Step) { s.Seconds = 0.0051 }))
	const web = "replicaset-controller shop/web-1 "
	assert.Equal(t, []string{
		web + "is queued, and due in 100ms", "kcm-1 leads", web + "begins sync 3", web + "observes active:2 mayAct:true want:3",
		web + "decides create:1", web + "POST pods was answered 201 after 4 ms", web + "ends after 5.1 ms",
	}, lines(teller))

	teller.step("kcm-1", step(trace.Begun, func(s *trace.Step) { s.Sync = 4 }))
	node := teller.scene["key:kcm-1/replicaset-controller/shop/web-1"]
	for _, former := range []string{"observed", "decided", "done", "more", "seconds", "error"} {
		assert.NotContains(t, node, former, "what the sync before has left")
	}
}

func TestAMomentIsNotChangedByThoseThatFollow(t *testing.T) {
	t.Parallel()
	teller := newTeller()
	teller.step("kcm-1", step(trace.Begun, nil))
	var texts []string
	for i := range 8 {
		teller.step("kcm-1", step(trace.Done, func(s *trace.Step) { s.Request, s.Code = "POST /api/v1/namespaces/shop/pods", 201+i }))
		text, err := json.Marshal(teller.moments[len(teller.moments)-1])
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	for i, m := range teller.moments[len(teller.moments)-8:] {
		text, err := json.Marshal(m)
		require.NoError(t, err)
		assert.Equal(t, texts[i], string(text))
	}
	node := teller.scene["key:kcm-1/replicaset-controller/shop/web-1"]
	assert.Len(t, node["done"], most)
	assert.Equal(t, 3, node["more"], "writes that are only counted")
}

func TestALeaderThatWakesUpIsNotTheLeaderBecauseItIsBusy(t *testing.T) {
	t.Parallel()
	teller := newTeller()
	teller.manager(began, "kcm-1", "leads")
	teller.manager(began, "kcm-1", "frozen")
	teller.manager(began, "kcm-2", "leads")
	teller.manager(began, "kcm-1", "woken")
	teller.step("kcm-1", step(trace.Begun, nil))
	assert.Equal(t, "kcm-2", teller.leader)
	assert.Equal(t, "woken", teller.scene["manager:kcm-1"]["state"])
}

func TestTheQueueOfAManagerGoesWithIt(t *testing.T) {
	t.Parallel()
	teller := newTeller()
	teller.step("kcm-1", step(trace.Queued, func(s *trace.Step) { s.Seconds = 60 }))
	teller.manager(began, "kcm-1", "gone")
	assert.NotContains(t, teller.scene, "key:kcm-1/replicaset-controller/shop/web-1")
}

func TestOfManagersThatAreGoneTheLastOneIsShown(t *testing.T) {
	t.Parallel()
	teller := newTeller()
	teller.manager(began, "kcm-1", "gone")
	teller.manager(began, "kcm-2", "waits")
	assert.Contains(t, teller.scene, "manager:kcm-1")
	teller.manager(began, "kcm-2", "gone")
	assert.NotContains(t, teller.scene, "manager:kcm-1")
	assert.Contains(t, teller.scene, "manager:kcm-2")
}

func TestToDecideToDoNothingIsADecision(t *testing.T) {
	t.Parallel()
	teller := newTeller()
	teller.step("kcm-1", step(trace.Begun, nil))
	teller.step("kcm-1", step(trace.Decided, nil))
	assert.Equal(t, map[string]any{}, teller.scene["key:kcm-1/replicaset-controller/shop/web-1"]["decided"])
}

func TestWhatHoldsIsUnknownOnceItDoesNotCountAnyMore(t *testing.T) {
	t.Parallel()
	teller := newTeller()
	teller.invariant(began, "too-many", "no pod too many", "")
	teller.invariant(began, "too-few", "no pod too few", "web has 2 of 3")
	teller.uncounted(began, "the API server is away")
	assert.Equal(t, "unknown", teller.scene["invariant:too-many"]["state"])
	assert.Equal(t, "broken", teller.scene["invariant:too-few"]["state"], "what was broken stays so")
	assert.Equal(t, "The invariants do not count any more: the API server is away", lines(teller)[2])
}

func TestOnlyWhatIsRecordedIsSaidToHold(t *testing.T) {
	t.Parallel()
	v := New("invariants")
	v.hold("replicasets")
	assert.Contains(t, v.told.scene, "invariant:too-many")
	assert.NotContains(t, v.told.scene, "invariant:counted-twice", "about Jobs")
}

func TestWhatWasNotThereIsNotSaidToHaveBeen(t *testing.T) {
	t.Parallel()
	teller := newTeller()
	web := object("web", "", map[string]any{"spec": map[string]any{"replicas": int64(3)}})
	teller.change(history.Change{Type: watch.Added, Resource: "deployments", Object: web, Seen: began})
	revised := web.DeepCopy()
	revised.SetAnnotations(map[string]string{"deployment.kubernetes.io/revision": "1"})
	teller.change(history.Change{Type: watch.Modified, Resource: "deployments", Object: revised, Seen: began})
	assert.Equal(t, "deployment web: revision 1", lines(teller)[1])
}

func TestToWaitForTheCacheIsNoError(t *testing.T) {
	t.Parallel()
	teller := newTeller()
	behind := "the cache is behind: it is at version 3, and shop/web-1 has written version 4"
	teller.step("kcm-1", step(trace.Ended, func(s *trace.Step) { s.Error = behind }))
	assert.Equal(t, []string{"replicaset-controller shop/web-1 waits: " + behind}, lines(teller))
	node := teller.scene["key:kcm-1/replicaset-controller/shop/web-1"]
	assert.Equal(t, behind, node["waits"])
	assert.NotContains(t, node, "error")
}

func TestWhatIsLostIsSaid(t *testing.T) {
	t.Parallel()
	teller := newTeller()
	teller.step("kcm-1", trace.Step{At: began, What: trace.Lost, Lost: 12})
	assert.Equal(t, []string{"12 steps of kcm-1 are lost: they came too fast"}, lines(teller))
}

func TestTheMomentsLeadToTheScene(t *testing.T) {
	t.Parallel()
	teller := newTeller()
	teller.change(history.Change{Type: watch.Added, Resource: "pods", Object: podThat("False", nil), Seen: began})
	teller.step("kcm-1", step(trace.Begun, nil))
	teller.step("kcm-1", step(trace.Ended, func(s *trace.Step) { s.Error = "no" }))
	teller.change(history.Change{Type: watch.Modified, Resource: "pods", Object: podThat("True", nil), Seen: began})
	teller.step("kcm-1", step(trace.Begun, nil))
	scene := Scene{}
	for _, m := range teller.moments {
		scene.Apply(m)
	}
	assert.Equal(t, teller.scene, scene)
	last := teller.moments[4].Set["web-a"]
	assert.Equal(t, Node{"state": "ready"}, last, "what a moment says of a pod that has become ready")
}

func TestAPartBeginsWithWhatIsThereThen(t *testing.T) {
	t.Parallel()
	v := New("the loops")
	v.tell(func(t *teller) {
		t.change(history.Change{Type: watch.Added, Resource: "pods", Object: podThat("False", nil), Seen: began})
		t.change(history.Change{Type: watch.Modified, Resource: "pods", Object: podThat("True", nil), Seen: began})
		t.change(history.Change{Type: watch.Deleted, Resource: "pods", Object: podThat("True", nil), Seen: began})
	})
	part := v.between(1, 99)
	require.Len(t, part, 2)
	assert.Equal(t, "ready", part[0].Set["web-a"]["state"])
	assert.Equal(t, "pod", part[0].Set["web-a"]["kind"], "a node that was there before is whole")
	assert.Equal(t, []int{0, 1}, []int{part[0].N, part[1].N})
	assert.Empty(t, v.between(99, 99))
}
