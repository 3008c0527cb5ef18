package play

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// silence lets a node's kubelet fall silent. The lab cluster plays only nodes whose label says that theirs speaks.
func (p *Play) silence(c *call) error { return p.tellKubelet(c.args[0], "silent") }

// heal lets it speak again.
func (p *Play) heal(c *call) error { return p.tellKubelet(c.args[0], "speaks") }

func (p *Play) tellKubelet(node, to string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"lab.kcm-book.io/kubelet":%q}}}`, to)
	return p.insist("tell the kubelet of "+node, func() error {
		_, err := p.client.Resource(kindOf["node"]).Patch(p.ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}
