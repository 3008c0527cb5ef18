package odd

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Kind is a kind of objects that are drawn.
type Kind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource"`
	Cluster    bool   `json:"cluster"` // its objects are in no namespace
	// Often, of 10, says how often it is drawn.
	Often int               `json:"often"`
	Names []string          `json:"names"`
	Good  []json.RawMessage `json:"good"`
	// Approvals are statuses that are written by the subresource approval, if the kind has it.
	Approvals []map[string]any `json:"approvals"`
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
	Kinds       []*Kind                        `json:"kinds"`
	Choices     [][]map[string]json.RawMessage `json:"choices"`
	Finalizers  []string                       `json:"finalizers"`
	Annotations []string                       `json:"annotations"`
	Nonsense    []string                       `json:"nonsense"`
	Labels      []string                       `json:"labels"`
	Texts       []string                       `json:"texts"`
	Numbers     []int64                        `json:"numbers"`
	Propagation []*metav1.DeletionPropagation  `json:"propagation"`
	Graces      []*int64                       `json:"graces"`
	Values      map[string][]json.RawMessage   `json:"values"`
}) {
	if err := yaml.UnmarshalStrict(described, &v); err != nil {
		panic(err)
	}
	v.Nonsense = append(v.Nonsense, strings.Repeat("9", 5000))
	return v
}()

func kindNamed(name string) *Kind {
	kinds := vocabulary.Kinds
	return kinds[slices.IndexFunc(kinds, func(k *Kind) bool { return k.Kind == name })]
}
