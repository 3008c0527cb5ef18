package odd

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Op is a request that was drawn.
type Op struct {
	// Number is where it stands in the draw, from 1 on.
	Number int
	// Verb is create, patch, status (a patch of it) or delete.
	Verb string
	Kind *Kind
	// Namespace is empty for what is in none. Name is empty where the operation is on the Which-th of the objects that are
	// there, most likely one that a loop has created.
	Namespace, Name string
	Which           int
	// Body is the object, or a merge patch. A UID in it may be a [promise].
	Body map[string]any
	How  metav1.DeleteOptions
	// Pause is how long the loops get before the next one.
	Pause time.Duration
}

// Size is that of the body in bytes.
func (op Op) Size() int {
	text, _ := json.Marshal(op.Body)
	return len(text)
}

// String is the operation as YAML, without what there is too much of.
func (op Op) String() string {
	name := op.Name
	if name == "" {
		name = fmt.Sprintf("(number %d of those that are there)", op.Which)
	}
	said := fmt.Sprintf("# %d: %s %s %s", op.Number, op.Verb, op.Kind, strings.TrimPrefix(op.Namespace+"/"+name, "/"))
	if op.Verb == "delete" {
		how, _ := json.Marshal(op.How)
		return fmt.Sprintf("%s %s", said, how)
	}
	text, _ := yaml.Marshal(shortened(op.Body))
	return said + "\n" + strings.TrimSpace(string(text))
}

// shortened leaves of long lists the first elements, and of long texts the beginning.
func shortened(value any) any {
	const most = 4
	switch v := value.(type) {
	case map[string]any:
		v = maps.Clone(v)
		for key := range v {
			v[key] = shortened(v[key])
		}
		return v
	case []any:
		short := []any{}
		for _, element := range v[:min(len(v), most)] {
			short = append(short, shortened(element))
		}
		if len(v) > most {
			short = append(short, fmt.Sprintf("… and %d more", len(v)-most))
		}
		return short
	case string:
		if len(v) > 100 && strings.Count(v, v[:1]) == len(v) {
			return fmt.Sprintf("%s… (%d bytes)", v[:10], len(v))
		}
	}
	return value
}

// Ops is how many are drawn from a seed.
const Ops = 200

// Namespaces are those of a draw that are there from the beginning.
func Namespaces(seed uint64) []string { return []string{own(seed, "a"), own(seed, "b")} }

// own is a name that only the draw of that seed uses.
func own(seed uint64, name string) string { return fmt.Sprintf("odd-%d-%s", seed, name) }

// Draw draws operations. They depend on nothing but the seed.
func Draw(seed uint64) []Op {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 0)), seed: seed}
	for range Ops {
		d.ops = append(d.ops, d.op())
	}
	return d.ops
}

// drawer draws.
type drawer struct {
	*rand.Rand
	seed    uint64
	ops     []Op
	created []Op // those that create
}

func one[T any](d *drawer, of ...T) T { return of[d.IntN(len(of))] }

func (d *drawer) in100(n int) bool { return d.IntN(100) < n }

func (d *drawer) op() (op Op) {
	switch at := d.IntN(100); {
	case at < 60 || len(d.created) < 10:
		op = d.create()
		d.created = append(d.created, op)
	case at < 66:
		op = d.touch()
	case at < 78:
		op = d.patch(one(d, d.created...))
	case at < 90:
		op = d.status(one(d, d.created...))
	default:
		op = d.delete(one(d, d.created...))
	}
	op.Number = len(d.ops) + 1
	switch {
	case op.Kind.Kind == "CustomResourceDefinition" || op.Kind.Kind == "ValidatingAdmissionPolicy" || d.in100(4):
		op.Pause = time.Second // the API server does not follow at once
	case d.in100(15):
		op.Pause = 100 * time.Millisecond
	}
	return op
}

func (d *drawer) kind() *Kind {
	if len(d.ops) == 0 && d.in100(70) {
		return kindNamed("CustomResourceDefinition") // or most of its objects would be refused
	}
	sum := 0
	for _, k := range Kinds {
		sum += k.Often
	}
	at := d.IntN(sum)
	return Kinds[slices.IndexFunc(Kinds, func(k *Kind) bool {
		at -= k.Often
		return at < 0
	})]
}

// create draws an object: a good one, most often with something odd. Most policies stay good, for an odd one refuses
// nothing.
func (d *drawer) create() Op {
	k := d.kind()
	op := Op{Verb: "create", Kind: k, Namespace: d.namespace(k), Name: one(d, k.Names...)}
	if k.Cluster && k.Kind != "CustomResourceDefinition" {
		op.Name = own(d.seed, op.Name)
	}
	op.Body = d.good(k, op.Namespace)
	if !d.in100(25) && (k.Kind != "ValidatingAdmissionPolicy" || d.in100(30)) {
		for range 1 + d.IntN(3) {
			op.Body = d.odd(k, op.Body)
		}
	}
	if op.Body["metadata"] == nil {
		delete(op.Body, "metadata")
	}
	o := &unstructured.Unstructured{Object: op.Body}
	o.SetAPIVersion(k.APIVersion)
	o.SetKind(k.Kind)
	if o.SetName(op.Name); op.Namespace != "" {
		o.SetNamespace(op.Namespace)
	}
	return op
}

// namespace is one that is there, or seldom one that may be drawn. No quota bounds what loops create there.
func (d *drawer) namespace(k *Kind) string {
	_, makesPods := k.Good[0]["spec"].(map[string]any)
	switch {
	case k.Cluster:
		return ""
	case !makesPods && d.in100(8):
		return own(d.seed, one(d, "c", "d"))
	case k.Kind == "Secret" && d.in100(20):
		return metav1.NamespaceSystem // where the token cleaner looks
	}
	return one(d, Namespaces(d.seed)...)
}

// good is an object that the API server takes.
func (d *drawer) good(k *Kind, namespace string) map[string]any {
	selection, refusal := one(d, vocabulary.Selections...), one(d, vocabulary.Refusals...)
	values := map[string]any{
		"$SELECTOR": selection.Selector, "$LABELS": selection.Labels, "$PODS": one(d, vocabulary.Pods...),
		"$REFUSAL": refusal.Rule, "$UNLESS": refusal.Unless,
	}
	node := one(d, "node-1", "node-2", "node-3", own(d.seed, "a"), "nowhere")
	words := strings.NewReplacer("$APP", d.app(), "$NODE", node, "$NAMESPACE", namespace)
	var put func(value any) any
	put = func(value any) any {
		switch v := value.(type) {
		case map[string]any:
			for key := range v {
				v[key] = put(v[key])
			}
		case []any:
			for i := range v {
				v[i] = put(v[i])
			}
		case string:
			if whole, ok := values[v]; ok {
				return put(runtime.DeepCopyJSONValue(whole))
			}
			return words.Replace(v)
		}
		return value
	}
	return put(runtime.DeepCopyJSON(one(d, k.Good...))).(map[string]any)
}

func (d *drawer) app() string { return one(d, "a", "b", "c") }

// patch changes an object that was drawn, whatever may be changed of it.
func (d *drawer) patch(of Op) Op {
	body := d.odd(of.Kind, runtime.DeepCopyJSON(of.Body))
	if d.in100(30) {
		body = d.good(of.Kind, of.Namespace)
	}
	for _, key := range []string{"apiVersion", "kind", "status"} {
		delete(body, key)
	}
	unstructured.RemoveNestedField(body, "metadata", "name")
	unstructured.RemoveNestedField(body, "metadata", "namespace")
	return Op{Verb: "patch", Kind: of.Kind, Namespace: of.Namespace, Name: of.Name, Body: body}
}

// status writes a status by hand.
func (d *drawer) status(of Op) Op {
	if !of.Kind.Status {
		return d.patch(of)
	}
	body := map[string]any{"status": d.filledStatus(of.Kind)}
	return Op{Verb: "status", Kind: of.Kind, Namespace: of.Namespace, Name: of.Name, Body: body}
}

func (d *drawer) delete(of Op) Op {
	op := Op{Verb: "delete", Kind: of.Kind, Namespace: of.Namespace, Name: of.Name}
	policy := one(d, "", metav1.DeletePropagationBackground, metav1.DeletePropagationForeground,
		metav1.DeletePropagationOrphan)
	if policy != "" {
		op.How.PropagationPolicy = &policy
	}
	if grace := one(d, -1, -1, 0, 1, int64(1<<31-1)); grace >= 0 {
		op.How.GracePeriodSeconds = &grace
	}
	return op
}

// touch does something to an object that a loop may have created.
func (d *drawer) touch() (op Op) {
	k := kindNamed(one(d, "Pod", "Pod", "Pod", "ReplicaSet", "ControllerRevision", "Job", "EndpointSlice", "Endpoints",
		"Secret"))
	which := d.IntN(20)
	of := Op{Kind: k, Namespace: one(d, Namespaces(d.seed)...)}
	of.Body = map[string]any{"metadata": d.metadata(map[string]any{})}
	switch d.IntN(3) {
	case 0:
		op = Op{Verb: "patch", Kind: k, Namespace: of.Namespace, Body: of.Body}
	case 1:
		op = d.status(of)
	default:
		op = d.delete(of)
	}
	op.Which = which
	return op
}

// metadata adds to an object's metadata what loops read there.
func (d *drawer) metadata(metadata map[string]any) map[string]any {
	switch d.IntN(5) {
	case 0:
		metadata["labels"] = d.more(metadata["labels"], vocabulary.Labels, vocabulary.Texts)
	case 1:
		annotations := d.more(metadata["annotations"], vocabulary.Annotations, vocabulary.Nonsense)
		if d.in100(5) {
			annotations[one(d, vocabulary.Annotations...)] = strings.Repeat("9", 5000)
		}
		metadata["annotations"] = annotations
	case 2, 3:
		metadata["ownerReferences"] = d.owners()
	case 4:
		metadata["finalizers"] = []any{one(d, vocabulary.Finalizers...)}
	}
	return metadata
}

// more is a map with some entries more.
func (d *drawer) more(former any, keys, values []string) map[string]any {
	entries, _ := former.(map[string]any)
	if entries = maps.Clone(entries); entries == nil {
		entries = map[string]any{}
	}
	for range 1 + d.IntN(4) {
		entries[one(d, keys...)] = one(d, values...)
	}
	return entries
}

// owners refers to anything: to what was drawn, in circles, too, to what is elsewhere, and to what there never was.
func (d *drawer) owners() (owners []any) {
	if d.in100(3) {
		return d.crowd()
	}
	for range 1 + d.IntN(3) {
		of := Op{Kind: d.kind(), Namespace: one(d, Namespaces(d.seed)...), Name: "nobody"}
		if len(d.created) > 0 && d.in100(80) {
			of = one(d, d.created...)
		}
		owner := d.owner(of.Kind.APIVersion, of.Kind.Kind, of.Name, promise(of))
		if len(owners) == 0 && d.in100(40) {
			owner["controller"] = true
		}
		owners = append(owners, owner)
	}
	return owners
}

// promise stands for the UID that an object gets, or for one that no object has.
func promise(of Op) string {
	return strings.Join([]string{"uid:" + of.Kind.Resource, of.Namespace, of.Name}, "/")
}

func (d *drawer) owner(version, kind, name, uid string) map[string]any {
	return map[string]any{"apiVersion": version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": d.in100(50)}
}

// crowd are up to some thousand owners that there never were, of which many share a UID.
func (d *drawer) crowd() (owners []any) {
	each := 1 + d.IntN(150)
	for range 1 + d.IntN(min(30, 3000/each)) {
		uid := fmt.Sprintf("%08x-0000-4000-8000-000000000000", d.Uint32())
		if d.in100(70) {
			owners = append(owners, d.owner("nope.example.com/v1", "Nope", "nobody", uid))
		}
		for i := range each {
			owners = append(owners, d.owner("v1", "ConfigMap", fmt.Sprintf("nobody-%s-%d", uid[:8], i), uid))
		}
	}
	return owners
}
