package play

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// silence lets a node's kubelet fall silent. The lab cluster leaves nodes with this label, and their pods, alone.
func (p *Play) silence(c *call) error { return p.labelNode(c.args[0], `{"lab.kcm-book.io/silent":""}`) }

// heal lets it speak again.
func (p *Play) heal(c *call) error { return p.labelNode(c.args[0], `{"lab.kcm-book.io/silent":null}`) }

func (p *Play) labelNode(name, labels string) error {
	patch := []byte(`{"metadata":{"labels":` + labels + `}}`)
	return p.insist("label node "+name, func() error {
		_, err := p.client.Resource(kindOf["node"]).Patch(p.ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}
