package view

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/trace"
	"github.com/kcm-book/kcm-book/labs/faults"
	"github.com/kcm-book/kcm-book/labs/history"
)

// Moment is one thing that has happened.
type Moment struct {
	// N counts the moments from 0. It is the address of the moment in a link.
	N int `json:"n"`
	// At is when, in milliseconds since 1970.
	At int64 `json:"at"`
	// Kind is deployment, replicaset, pod, node, manager, queue, sync, deed or invariant.
	Kind string `json:"kind"`
	// Says is the line of the text log.
	Says string `json:"says"`
	// Set has of the nodes of the scene what is new or changed, with nil for what a node does not have any more; Gone are
	// the nodes that are no more.
	Set  Scene    `json:"set,omitempty"`
	Gone []string `json:"gone,omitempty"`
}

// Node is one thing in the scene: an object, a key in a queue with its last sync, a manager or an invariant. Kind says
// which, and which other fields it has.
type Node map[string]any

// Scene is what there is at a moment, by the names of the nodes.
type Scene map[string]Node

// Apply makes a scene that of a moment, coming from the one before it.
func (s Scene) Apply(m Moment) {
	for id, changed := range m.Set {
		node := Node{}
		maps.Copy(node, s[id])
		maps.Copy(node, changed)
		maps.DeleteFunc(node, func(_ string, value any) bool { return value == nil })
		s[id] = node
	}
	for _, id := range m.Gone {
		delete(s, id)
	}
}

// since returns what is different in a node from the one before it, which may be nil.
func (n Node) since(before Node) Node {
	changed := Node{}
	for field := range before {
		changed[field] = nil
	}
	maps.Copy(changed, n)
	maps.DeleteFunc(changed, func(field string, value any) bool {
		was, had := before[field]
		return had && reflect.DeepEqual(was, value)
	})
	return changed
}

// tell adds a moment, and wakes who waits for news. The nodes are whole. Who calls it has the lock.
func (v *View) tell(at time.Time, kind, says string, nodes Scene, gone ...string) {
	m := Moment{N: len(v.moments), At: at.UnixMilli(), Kind: kind, Says: says, Set: Scene{}, Gone: gone}
	for id, node := range nodes {
		if changed := node.since(v.scene[id]); len(changed) > 0 {
			m.Set[id] = changed
		}
	}
	v.scene.Apply(m)
	v.moments = append(v.moments, m)
	close(v.news)
	v.news = make(chan struct{})
}

// change tells of a change of an object, if the view shows such objects and the change can be seen.
func (v *View) change(c history.Change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	o, node := c.Object, nodeOf(c.Resource, c.Object)
	if node == nil || strings.HasPrefix(o.GetNamespace(), "kube-") {
		return
	}
	id, kind := string(o.GetUID()), strings.TrimSuffix(c.Resource, "s")
	before, known := v.scene[id]
	name := kind + " " + o.GetName()
	node["kind"] = kind
	says := difference(before, node)
	switch {
	case c.Type == watch.Deleted && known:
		v.tell(c.Seen, kind, name+" is gone", nil, id)
		return
	case c.Type == watch.Deleted:
		return
	case !known:
		says = " is there: " + says
	case says == "":
		says = " was written, and shows nothing new"
	default:
		says = ": " + says
	}
	v.tell(c.Seen, kind, name+says, Scene{id: node})
}

// told are the fields of nodes that the text log tells, in its order.
var told = []string{
	"state", "taints", "range", "want", "pods", "updated", "ready", "available", "revision", "image", "paused", "deleted",
	"owner",
}

// difference says what is different in a node, or what it has if there was none.
func difference(before, after Node) string {
	var all []string
	for _, field := range told {
		was, is := before[field], after[field]
		switch {
		case was == is || before == nil && (is == nil || is == "" || is == false || is == int32(0) || field == "owner"):
		case field == "owner" && is == nil:
			all = append(all, "nobody's")
		case field == "owner":
			all = append(all, "another owner's")
		case field == "state":
			all = append(all, fmt.Sprint(is))
		case is == "":
			all = append(all, "no "+field)
		case is == true:
			all = append(all, field)
		case is == false:
			all = append(all, "not "+field)
		case was == nil || was == "":
			all = append(all, fmt.Sprintf("%s %v", field, is))
		default:
			all = append(all, fmt.Sprintf("%s %v, was %v", field, is, was))
		}
	}
	return strings.Join(all, "; ")
}

// nodeOf describes an object, if the view shows such objects.
func nodeOf(resource string, o *unstructured.Unstructured) Node {
	node := Node{"name": o.GetName(), "namespace": o.GetNamespace(), "version": o.GetResourceVersion()}
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		node["owner"] = string(owner.UID)
	}
	var d appsv1.Deployment // what is shown of ReplicaSets has the same names
	var pod corev1.Pod
	var n corev1.Node
	typed, shown := map[string]any{"deployments": &d, "replicasets": &d, "replicationcontrollers": &d, "pods": &pod,
		"nodes": &n}[resource]
	if !shown || runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed) != nil {
		return nil
	}
	switch resource {
	case "pods":
		node["state"], node["image"], node["node"] = stateOf(&pod), imageOf(pod.Spec), pod.Spec.NodeName
	case "nodes":
		_, ready := nodeutil.GetNodeCondition(&n.Status, corev1.NodeReady)
		node["state"] = "Ready=" + string(ptr.Deref(ready, corev1.NodeCondition{}).Status)
		node["taints"], node["range"] = taintsOf(&n), n.Spec.PodCIDR
	default:
		is := d.Status
		node["want"], node["pods"], node["ready"] = ptr.Deref(d.Spec.Replicas, 0), is.Replicas, is.ReadyReplicas
		node["available"], node["image"] = is.AvailableReplicas, imageOf(d.Spec.Template.Spec)
		node["revision"] = d.Annotations["deployment.kubernetes.io/revision"]
		node["deleted"] = d.DeletionTimestamp != nil
		if resource == "deployments" {
			node["updated"], node["paused"] = is.UpdatedReplicas, d.Spec.Paused
			node["behind"] = d.Generation > is.ObservedGeneration
		}
	}
	return node
}

func taintsOf(n *corev1.Node) string {
	var all []string
	for _, taint := range n.Spec.Taints {
		all = append(all, path.Base(taint.Key)+":"+string(taint.Effect))
	}
	return strings.Join(all, ", ")
}

func imageOf(spec corev1.PodSpec) string {
	if len(spec.Containers) == 0 {
		return ""
	}
	return path.Base(spec.Containers[0].Image)
}

// stateOf is what a pod's colour says: waiting, starting, ready, ending, ended.
func stateOf(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "ending"
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return "ended"
	case controller.IsPodReady(pod):
		return "ready"
	case pod.Spec.NodeName != "":
		return "starting"
	}
	return "waiting"
}

// Step tells of what a loop of a manager has done.
func (v *View) Step(manager string, s trace.Step) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.What == trace.Lost {
		v.tell(s.At, "sync", fmt.Sprintf("%d steps of %s are lost: they came too fast", s.Lost, manager), nil)
		return
	}
	if s.Namespace == "" || strings.HasPrefix(s.Namespace, "kube-") {
		return
	}
	if s.What == trace.Begun && v.leader == "" { // a leader that was frozen goes on for a while
		v.manager(s.At, manager, "leads")
	}
	id := keyPrefix(manager) + s.Loop + "/" + s.Namespace + "/" + s.Name
	node := Node{"kind": "key", "loop": s.Loop, "namespace": s.Namespace, "name": s.Name}
	maps.Copy(node, v.scene[id])
	node["manager"] = manager
	kind, says := "sync", ""
	switch s.What {
	case trace.Queued:
		wait := time.Duration(s.Seconds * float64(time.Second))
		if kind, says = "queue", "is queued"; wait > 0 {
			says += fmt.Sprintf(", and due in %v", wait.Round(time.Millisecond))
		}
		node["queued"], node["due"] = true, s.At.Add(wait).UnixMilli()
	case trace.Begun:
		says = fmt.Sprintf("begins sync %d", s.Sync)
		for _, former := range []string{"observed", "decided", "done", "more", "waits", "error", "seconds"} {
			delete(node, former)
		}
		node["sync"], node["working"], node["queued"] = s.Sync, true, false
	case trace.Observed:
		says = "observes " + factsText(s.Facts)
		node["observed"] = s.Facts
		if active, counts := s.Facts["active"]; counts {
			node["saw"] = active // stays while later syncs wait for the cache
		}
	case trace.Decided:
		says = "decides " + factsText(s.Facts)
		node["decided"] = s.Facts
		if len(s.Facts) == 0 { // to do nothing is a decision, too
			says, node["decided"] = "decides to do nothing", map[string]any{}
		}
	case trace.Done:
		says = place.ReplaceAllString(s.Request, "") + " " + outcome(s)
		done(node, says)
	case trace.Ended:
		node["working"], node["seconds"] = false, s.Seconds
		switch {
		case strings.HasPrefix(s.Error, controller.ErrStaleCache.Error()): // which is no failure
			says, node["waits"] = "waits: "+s.Error, s.Error
		case s.Error != "":
			says, node["error"] = "ends with an error: "+s.Error, s.Error
		default:
			says = fmt.Sprintf("ends after %.1f ms", 1000*s.Seconds)
		}
	}
	v.tell(s.At, kind, s.Loop+" "+s.Namespace+"/"+s.Name+" "+says, Scene{id: node})
}

// most is how many writes of a sync are kept by themselves.
const most = 5

// done adds to a key's node what has become of a write, or that it is one more than are kept.
func done(node Node, says string) {
	writes, _ := node["done"].([]string)
	if len(writes) < most {
		node["done"] = append(slices.Clone(writes), says)
	} else {
		more, _ := node["more"].(int)
		node["more"] = more + 1
	}
}

// place is what stands in a request before the resource.
var place = regexp.MustCompile(`/\S*/namespaces/[^/]+/`)

func outcome(s trace.Step) string {
	if s.Error != "" {
		return "failed: " + s.Error
	}
	return fmt.Sprintf("was answered %d after %.0f ms", s.Code, 1000*s.Seconds)
}

// factsText is facts in the order of their names.
func factsText(facts map[string]any) string {
	text := strings.NewReplacer("map[", "(", "[", "(", "]", ")").Replace(fmt.Sprint(facts))
	return text[1 : len(text)-1]
}

// manager tells how a manager is: it waits, leads, is frozen, woken or gone.
func (v *View) manager(at time.Time, name, state string) {
	id, leader := "manager:"+name, "manager:"+v.leader
	if v.scene[id]["state"] == state {
		return
	}
	nodes := Scene{id: {"kind": "manager", "name": name, "state": state}}
	var gone []string
	switch {
	case state == "leads":
		if v.scene[leader]["state"] == "leads" {
			nodes[leader] = Node{"kind": "manager", "name": v.leader, "state": "led"}
		}
		v.leader = name
	case v.leader == name && state != "frozen" && state != "woken":
		v.leader = ""
	}
	if state == "gone" { // and its queues with it; who was gone before is not shown any more
		for other, node := range v.scene {
			if strings.HasPrefix(other, keyPrefix(name)) || node["kind"] == "manager" && node["state"] == "gone" {
				gone = append(gone, other)
			}
		}
		slices.Sort(gone)
	}
	v.tell(at, "manager", name+" "+stateText[state], nodes, gone...)
}

// keyPrefix begins the names of the nodes of a manager's keys.
func keyPrefix(manager string) string { return "key:" + manager + "/" }

var stateText = map[string]string{
	"waits": "waits to lead", "leads": "leads", "frozen": "is frozen", "gone": "is gone",
	"woken": "wakes up, and goes on where it was",
}

// holds tells that the invariants about a resource hold so far, at the first object of it. What is not
// recorded has none that could be said to hold.
func (v *View) holds(resource string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, i := range faults.Invariants {
		if id := "invariant:" + i.Name; i.About == resource && v.scene[id] == nil {
			v.tell(time.Now(), "invariant", "invariant "+i.Name+" holds so far: "+i.Says,
				Scene{id: {"kind": "invariant", "name": i.Name, "rule": i.Says, "state": "holds"}})
		}
	}
}

// broken tells that an invariant does not hold.
func (v *View) broken(name, says string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.uncounted {
		return
	}
	id := "invariant:" + name
	node := Node{}
	maps.Copy(node, v.scene[id])
	node["state"], node["says"] = "broken", says
	v.tell(time.Now(), "invariant", "invariant "+name+" is broken: "+says, Scene{id: node})
}

// StopJudging says that the invariants do not count any more, and why.
func (v *View) StopJudging(why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.uncounted {
		return
	}
	v.uncounted = true
	changed := Scene{}
	for id, node := range v.scene {
		if node["kind"] == "invariant" && node["state"] == "holds" {
			changed[id] = maps.Clone(node)
			changed[id]["state"] = "unknown"
		}
	}
	v.tell(time.Now(), "deed", "The invariants do not count any more: "+why, changed)
}
