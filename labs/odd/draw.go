package odd

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// Op is a request that was drawn.
type Op struct {
	// Number is where it stands in the draw, from 1 on.
	Number int
	// Verb is create, patch, status or approval (a patch by that subresource) or delete.
	Verb string
	Kind *Kind
	// Namespace is empty for what is in none. Name is empty where the operation is on the Which-th of the objects that
	// are there, most likely one that a loop has created.
	Namespace, Name string
	Which           int
	// Body is the object, or a merge patch, without its type and name. A UID in it may be a [promise].
	Body map[string]any
	How  metav1.DeleteOptions
	// Pause is how long the loops get before the next one.
	Pause time.Duration
}

// object is what is sent of the operation for the object of that name.
func (op Op) object(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(op.Body)}
	if o.Object["metadata"] == nil {
		delete(o.Object, "metadata")
	}
	o.SetAPIVersion(op.Kind.APIVersion)
	o.SetKind(op.Kind.Kind)
	o.SetNamespace(op.Namespace)
	o.SetName(name)
	return o
}

// digits are more of them than anybody wants to read.
var digits = regexp.MustCompile(`(\d{10})\d{90,}`)

// longest is how much of an operation is printed of its begin, and of its end.
const longest = 3000

// String is the operation as YAML, without the middle of what nobody wants to read.
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
	text, _ := yaml.Marshal(op.object(op.Name).Object)
	text = digits.ReplaceAll(text, []byte("$1…"))
	if len(text) > 2*longest {
		text = slices.Concat(text[:longest], []byte("\n…\n"), text[len(text)-longest:])
	}
	return said + "\n" + strings.TrimSpace(string(text))
}

// Shorten leaves out operations as long as what is left still fails, halves first and single ones in the end.
func Shorten(ops []Op, fails func([]Op) bool) []Op {
	for size := (len(ops) + 1) / 2; size >= 1; size /= 2 {
		for start := 0; start < len(ops); {
			rest := slices.Concat(ops[:start], ops[min(start+size, len(ops)):])
			if len(rest) > 0 && fails(rest) {
				ops = rest
			} else {
				start += size
			}
		}
	}
	return ops
}

// clusterInfo is the ConfigMap of which there is one for all draws and canaries, in kube-public.
const clusterInfo = "cluster-info"

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
	for {
		if k := one(d, vocabulary.Kinds...); d.IntN(10) < k.Often {
			return k
		}
	}
}

// create draws an object: a good one, most often with something odd. Most policies stay good, for an odd one refuses
// nothing.
func (d *drawer) create() Op {
	k := d.kind()
	op := Op{Verb: "create", Kind: k, Namespace: d.namespace(k), Name: one(d, k.Names...)}
	if k.Cluster && k.Kind != "CustomResourceDefinition" || op.Namespace == corev1.NamespaceNodeLease {
		op.Name = own(d.seed, op.Name)
	}
	if op.Name == clusterInfo && d.in100(60) {
		op.Namespace = metav1.NamespacePublic // where it is signed
	}
	op.Body = d.good(k, op.Namespace)
	if !d.in100(25) && (k.Kind != "ValidatingAdmissionPolicy" || d.in100(30)) {
		for range 1 + d.IntN(3) {
			d.odd(k, op.Body)
		}
	}
	return op
}

// namespace is one that is there, or seldom one that may be drawn. No quota bounds what loops create there.
func (d *drawer) namespace(k *Kind) string {
	makesPods := strings.HasPrefix(string(k.Good[0]), `{"spec":{`)
	switch {
	case k.Cluster:
		return ""
	case !makesPods && d.in100(8):
		return own(d.seed, one(d, "c", "d"))
	case k.Kind == "Secret" && d.in100(20):
		return metav1.NamespaceSystem // where the token cleaner looks
	case k.Kind == "Lease" && d.in100(60):
		return corev1.NamespaceNodeLease
	}
	return one(d, Namespaces(d.seed)...)
}

// good is an object that the API server takes.
func (d *drawer) good(k *Kind, namespace string) (object map[string]any) {
	var values []string
	for _, choice := range vocabulary.Choices {
		for name, value := range one(d, choice...) {
			values = append(values, fmt.Sprintf("%q", name), string(value))
		}
	}
	node := one(d, "node-1", "node-2", "node-3", own(d.seed, "a"), "nowhere")
	words := strings.NewReplacer("$APP", d.app(), "$NODE", node, "$NAMESPACE", namespace)
	text := words.Replace(strings.NewReplacer(values...).Replace(string(one(d, k.Good...))))
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		panic(err)
	}
	return object
}

func (d *drawer) app() string { return one(d, "a", "b", "c") }

// patch changes an object that was drawn, whatever may be changed of it. Of what may be approved that is its status and
// metadata alone.
func (d *drawer) patch(of Op) Op {
	if len(of.Kind.Approvals) > 0 && d.in100(50) {
		return d.status(of)
	}
	of.Verb, of.Body = "patch", runtime.DeepCopyJSON(of.Body)
	if d.in100(30) {
		of.Body = d.good(of.Kind, of.Namespace)
	} else {
		d.odd(of.Kind, of.Body)
	}
	return of
}

func (d *drawer) status(of Op) Op {
	if some := of.Kind.Approvals; len(some) > 0 && d.in100(70) {
		of.Verb, of.Body = "approval", map[string]any{"status": one(d, some...)}
		return of
	}
	status, has := d.filled(of.Kind)["status"]
	if !has {
		return d.patch(of)
	}
	of.Verb, of.Body = "status", map[string]any{"status": status}
	return of
}

func (d *drawer) delete(of Op) Op {
	of.Verb, of.Body = "delete", nil
	of.How.PropagationPolicy = one(d, vocabulary.Propagation...)
	of.How.GracePeriodSeconds = one(d, vocabulary.Graces...)
	return of
}

// touch does something to an object that a loop may have created.
func (d *drawer) touch() Op {
	kind := one(d, "Pod", "Pod", "Pod", "ReplicaSet", "ControllerRevision", "Job", "EndpointSlice", "Endpoints", "Secret")
	of := Op{Verb: "patch", Kind: kindNamed(kind), Which: d.IntN(20), Namespace: one(d, Namespaces(d.seed)...)}
	of.Body = map[string]any{"metadata": d.metadata(map[string]any{})}
	switch d.IntN(3) {
	case 1:
		return d.status(of)
	case 2:
		return d.delete(of)
	}
	return of
}

// metadata adds to an object's metadata what loops read there.
func (d *drawer) metadata(metadata map[string]any) map[string]any {
	switch d.IntN(5) {
	case 0:
		metadata["labels"] = d.more(metadata["labels"], vocabulary.Labels, vocabulary.Texts)
	case 1:
		metadata["annotations"] = d.more(metadata["annotations"], vocabulary.Annotations, vocabulary.Nonsense)
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
	if entries == nil {
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
	uid, each := "", 1+d.IntN(150)
	for i := range each * (1 + d.IntN(min(30, 3000/each))) {
		if i%each == 0 {
			uid = fmt.Sprintf("%08x-0000-4000-8000-000000000000", d.Uint32())
			owners = append(owners, d.owner("nope.example.com/v1", "Nope", "nobody", uid))
		}
		owners = append(owners, d.owner("v1", "ConfigMap", fmt.Sprintf("nobody-%d", i), uid))
	}
	return owners
}
