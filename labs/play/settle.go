package play

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// witnessLabel marks the objects that settle needs. Scripts do not know their names, and expressions do not see them.
const witnessLabel = "lab.kcm-book.io/witness"

func isWitness(object *unstructured.Unstructured) bool {
	_, is := object.GetLabels()[witnessLabel]
	return is
}

const witness = `
apiVersion: apps/v1
kind: %s
metadata: {generateName: witness-, labels: {lab.kcm-book.io/witness: ""}}
spec:
  replicas: 1
  selector: {matchLabels: {lab.kcm-book.io/witness: ""}}
  template:
    metadata: {labels: {lab.kcm-book.io/witness: ""}}
    spec: {containers: [{name: web, image: "web:1"}]}
`

// settle waits until the loops have seen what there is and have synced the object, if there is one. For the first, a
// Deployment is created and its status awaited, or a ReplicaSet where a manager of chapter 06 has no loop for
// Deployments: a loop's caches see things in the order in which they happen, so it has then seen all that happened
// before. For the second, the object's generation is raised by something that changes nothing, and observedGeneration
// awaited.
func (p *Play) settle(c *call) error {
	if len(c.args) == 0 {
		return p.seen()
	}
	o, name, err := p.locate(c)
	if err != nil {
		return err
	}
	touch, known := touches[o.resource.Resource]
	if !known {
		return fmt.Errorf("settle does not know %s: it touches %s; of others, await what they are to show",
			o.resource.Resource, strings.Join(slices.Sorted(maps.Keys(touches)), ", "))
	}
	if err := p.seen(); err != nil {
		return fmt.Errorf("settle %s: %w", c.args[0], err)
	}
	p.touched++ // a value that it has not had
	patch := fmt.Appendf(nil, touch, p.touched)
	_, err = p.api(o.resource).Patch(p.ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return p.until(c.args[0]+" was synced", &operand{source: o.source, resource: o.resource, name: name}, "true")
}

// touches raise an object's generation. A generation is raised by any change of the spec; these are of fields that have
// no effect on pods that run.
var touches = map[string]string{
	"daemonsets":             `{"spec": {"revisionHistoryLimit": 10%d}}`,
	"deployments":            `{"spec": {"revisionHistoryLimit": 10%d}}`,
	"replicasets":            `{"spec": {"template": {"metadata": {"annotations": {"lab.kcm-book.io/touched": "%d"}}}}}`,
	"replicationcontrollers": `{"spec": {"template": {"metadata": {"annotations": {"lab.kcm-book.io/touched": "%d"}}}}}`,
}

// seen returns when the loops have seen all that has happened until now.
func (p *Play) seen() error {
	kind := "Deployment"
	if !p.Manager.has("deployment-controller") {
		kind = "ReplicaSet"
	}
	object, _ := parseManifest(fmt.Sprintf(witness, kind), nil) // it is YAML
	resource := kindOf[strings.ToLower(kind)]
	created, err := p.api(resource).Create(p.ctx, object, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made := &operand{source: kind + "/" + created.GetName(), resource: resource, name: created.GetName()}
	return p.until("the loops have seen what there is", made, "self.status.replicas == 1")
}
