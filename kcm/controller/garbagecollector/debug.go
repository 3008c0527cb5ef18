package garbagecollector

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// DebuggingHandler draws the graph in the language of Graphviz, as the original
// does, without what has neither owners nor dependents. The manager serves it
// as /debug/controllers/garbage-collector-controller/graph, and with ?uid= it
// is what hangs together with these objects.
func (gc *GarbageCollector) DebuggingHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/graph", func(w http.ResponseWriter, r *http.Request) {
		drawn := locked(gc, func(g *graph) []byte { return draw(g.around(r.URL.Query()["uid"])) })
		w.Header().Set("Content-Type", "text/vnd.graphviz")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Write(drawn) // whoever has asked and gone does not want it
	})
	return mux
}

// around returns the nodes that hang together with these, by owners and
// dependents, or all of them, sorted by UID.
func (g *graph) around(uids []string) []*node {
	found := map[types.UID]*node{}
	next := slices.Collect(maps.Keys(g.nodes))
	if len(uids) > 0 {
		next = nil
		for _, uid := range uids {
			next = append(next, types.UID(uid))
		}
	}
	for len(next) > 0 {
		n := g.nodes[next[0]]
		next = next[1:]
		if n == nil || found[n.uid] != nil {
			continue
		}
		found[n.uid] = n
		next = append(next, n.owners()...)
		next = slices.AppendSeq(next, maps.Keys(n.dependents))
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *node) int { return cmp.Compare(a.uid, b.uid) })
}

// owners returns the UIDs that an object names as its owners, sorted.
func (n *node) owners() []types.UID {
	var uids []types.UID
	if n.object != nil {
		for _, ref := range n.object.OwnerReferences {
			uids = append(uids, ref.UID)
		}
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// draw writes nodes and what leads from dependents to owners.
func draw(nodes []*node) []byte {
	var vertices, edges bytes.Buffer
	for _, n := range nodes {
		if len(n.dependents) == 0 && len(n.owners()) == 0 {
			continue
		}
		drawVertex(&vertices, n)
		for _, owner := range n.owners() {
			fmt.Fprintf(&edges, "  %q -> %q;\n", n.uid, owner)
		}
	}
	var b bytes.Buffer
	b.WriteString("strict digraph full {\n")
	if vertices.Len() > 0 {
		fmt.Fprintf(&b, "  // Node definitions.\n%s", &vertices)
	}
	if edges.Len() > 0 {
		fmt.Fprintf(&b, "  // Edge definitions.\n%s", &edges)
	}
	b.WriteString("}\n")
	return b.Bytes()
}

func drawVertex(b *bytes.Buffer, n *node) {
	is, virtual := n.identity(), n.object == nil
	kind := schema.FromAPIVersionAndKind(is.apiVersion, is.kind)
	name := strings.Trim(kind.Kind+"."+kind.Version+"."+kind.Group, ".") + "/" + is.name
	label := fmt.Sprintf("uid=%s\nnamespace=%s\n%s\n", is.uid, is.namespace, name)
	deleted, collected := phaseOf(n.object) != alive, phaseOf(n.object) == collecting
	var marks []string
	for _, mark := range []struct {
		name string
		set  bool
	}{{"beingDeleted", deleted}, {"deletingDependents", collected}, {"virtual", virtual}} {
		if mark.set {
			marks = append(marks, mark.name)
		}
	}
	if len(marks) > 0 {
		label += strings.Join(marks, ",") + "\n"
	}
	fmt.Fprintf(b, "  %q [\n    label=%q\n    group=%q\n    version=%q\n    kind=%q\n    namespace=%q\n    name=%q\n    uid=%q\n",
		is.uid, label, kind.Group, kind.Version, kind.Kind, is.namespace, is.name, is.uid)
	fmt.Fprintf(b, "    missing=\"false\"\n    beingDeleted=\"%t\"\n    deletingDependents=\"%t\"\n    virtual=\"%t\"\n  ];\n",
		deleted, collected, virtual)
}

// identity is what an object is, and of one that nobody has seen the first of
// what its dependents say.
func (n *node) identity() reference {
	if n.object != nil {
		return referenceTo(n.object)
	}
	var claims []reference
	for _, d := range n.dependents {
		for _, ref := range d.object.OwnerReferences {
			if ref.UID == n.uid {
				claims = append(claims, claim(d.object, ref))
			}
		}
	}
	return slices.MinFunc(claims, func(a, b reference) int { return cmp.Compare(a.String(), b.String()) })
}
