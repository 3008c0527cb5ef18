package play

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

func (p *Play) create(c *call) error {
	content, err := p.readManifest(c.args[0])
	if err != nil {
		return err
	}
	for document := range strings.SplitSeq(content, "\n---\n") {
		object, err := parseManifest(document, argument[[]byte](c, "OVERLAY"))
		if err != nil {
			return fmt.Errorf("%s: %w", c.args[0], err)
		}
		resource, known := kindOf[strings.ToLower(object.GetKind())]
		if !known {
			return fmt.Errorf("%s: scripts know no kind %q", c.args[0], object.GetKind())
		}
		err = p.insist("create "+c.args[0], func() error {
			_, err := p.api(resource).Create(p.ctx, object, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readManifest reads a file of the script's, or one of those that it may use.
func (p *Play) readManifest(name string) (string, error) {
	for _, dir := range append([]string{p.work}, p.Manifests...) {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if !errors.Is(err, os.ErrNotExist) {
			return string(content), err
		}
	}
	return "", fmt.Errorf("there is no file %s", name)
}

func parseManifest(document string, overlay []byte) (*unstructured.Unstructured, error) {
	content, err := yaml.YAMLToJSONStrict([]byte(document))
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(content); err != nil || overlay == nil {
		return object, err
	}
	typed, err := scheme.Scheme.New(object.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if content, err = strategicpatch.StrategicMergePatch(content, overlay, typed); err != nil {
		return nil, fmt.Errorf("overlay %s: %w", overlay, err)
	}
	return object, object.UnmarshalJSON(content)
}

func overlayed(overlay string) ([]byte, error) {
	change, err := yaml.YAMLToJSONStrict([]byte(overlay))
	if err != nil {
		return nil, fmt.Errorf("overlay %s: %w", overlay, err)
	}
	return change, nil
}

func (p *Play) patch(c *call) error {
	o, name, err := p.locate(c)
	if err != nil {
		return err
	}
	var subresources []string
	if c.has("--status") {
		subresources = []string{"status"}
	}
	kind, change, options := types.StrategicMergePatchType, argument[[]byte](c, "OVERLAY"), metav1.PatchOptions{}
	return p.insist("patch "+o.source, func() error {
		_, err := p.api(o.resource).Patch(p.ctx, name, kind, change, options, subresources...)
		return err
	})
}

func (p *Play) delete(c *call) error {
	o, name, err := p.locate(c)
	if err != nil {
		return err
	}
	propagation := cmp.Or(argument[metav1.DeletionPropagation](c, "--cascade"), metav1.DeletePropagationBackground)
	return p.insist("delete "+o.source, func() error {
		return p.api(o.resource).Delete(p.ctx, name, metav1.DeleteOptions{PropagationPolicy: &propagation})
	})
}

// tellKubelet lets a node's kubelet fall silent or speak: the lab cluster plays only nodes whose label says the latter.
func (p *Play) tellKubelet(node, to string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"lab.kcm-book.io/kubelet":%q}}}`, to)
	return p.insist("tell the kubelet of "+node, func() error {
		_, err := p.client.Resource(kindOf["node"]).Patch(p.ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// insist sends a write until the API server answers: while that is away, whoever uses a cluster tries again. What is
// there already then, or gone, a try has made or deleted whose answer was lost.
func (p *Play) insist(what string, write func() error) error {
	var refused error
	tries := 0
	err := p.wait("the API server answers to "+what, func() (bool, error) {
		err := write()
		tries++
		if isAnswer(err) && (tries == 1 || !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err)) {
			refused = err
		}
		return err == nil || isAnswer(err), err
	})
	return cmp.Or(err, refused)
}

// isAnswer tells whether an error is what the API server has answered.
func isAnswer(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status)
}

func cascade(flag string) (metav1.DeletionPropagation, error) {
	for how, propagation := range map[string]metav1.DeletionPropagation{"orphan": metav1.DeletePropagationOrphan,
		"background": metav1.DeletePropagationBackground, "foreground": metav1.DeletePropagationForeground} {
		if flag == "--cascade="+how {
			return propagation, nil
		}
	}
	return "", fmt.Errorf("%s: write --cascade=orphan, background or foreground", flag)
}
