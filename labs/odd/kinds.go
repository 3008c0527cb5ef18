package odd

import (
	_ "embed"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Kind is a kind of objects that are drawn.
type Kind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource"`
	// Cluster tells that its objects are in no namespace, Status that they have one that is written by itself.
	Cluster bool              `json:"cluster"`
	Status  bool              `json:"status"`
	Often   int               `json:"often"`
	Names   []string          `json:"names"`
	Good    []json.RawMessage `json:"good"`
}

// String is as a user says it: daemonsets.apps.
func (k *Kind) String() string { return k.resource().GroupResource().String() }

func (k *Kind) resource() schema.GroupVersionResource {
	return schema.FromAPIVersionAndKind(k.APIVersion, k.Kind).GroupVersion().WithResource(k.Resource)
}

//go:embed kinds.yaml
var described []byte

// vocabulary is what is drawn from. kinds.yaml explains it.
var vocabulary = func() (v struct {
	Kinds      []*Kind `json:"kinds"`
	Selections []struct {
		Selector json.RawMessage `json:"selector"`
		Labels   json.RawMessage `json:"labels"`
	} `json:"selections"`
	Refusals []struct {
		Rule   json.RawMessage `json:"rule"`
		Unless json.RawMessage `json:"unless"`
	} `json:"refusals"`
	Pods        []json.RawMessage            `json:"pods"`
	Finalizers  []string                     `json:"finalizers"`
	Annotations []string                     `json:"annotations"`
	Nonsense    []string                     `json:"nonsense"`
	Labels      []string                     `json:"labels"`
	Texts       []string                     `json:"texts"`
	Numbers     []int64                      `json:"numbers"`
	Values      map[string][]json.RawMessage `json:"values"`
}) {
	if err := yaml.UnmarshalStrict(described, &v); err != nil {
		panic(err)
	}
	return v
}()

// Kinds are all kinds that are drawn: those that a loop has an informer for, some of which the loops for garbage,
// namespaces and quotas see only the metadata, and one that is not always there.
var Kinds = vocabulary.Kinds

// oftenDrawn has each kind as often as it is drawn.
var oftenDrawn = func() (all []*Kind) {
	for _, k := range Kinds {
		all = append(all, slices.Repeat([]*Kind{k}, k.Often)...)
	}
	return all
}()

func kindNamed(name string) *Kind {
	return Kinds[slices.IndexFunc(Kinds, func(k *Kind) bool { return k.Kind == name })]
}
