package play

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// silent is the annotation of a node that asks its kubelet for silence, and by which that answers.
const silent = "lab.kcm-book.io/silent"

// silence lets a node's kubelet fall silent. The Lease goes to somebody who does not renew it. But kwok looks at the
// Lease when something happens to the node, and not when it carries out what it has planned, such as the next heartbeat.
// So it is asked to plan none first, and its answer waited for.
func (p *Play) silence(c *call) error {
	node, nodes := c.args[0], p.client.Resource(kindOf["node"])
	if err := p.merge("node", node, `{"metadata":{"annotations":{%q:"asked"}}}`, silent); err != nil {
		return err
	}
	err := p.wait("the kubelet of "+node+" is silent", func() (bool, error) {
		object, err := nodes.Get(p.ctx, node, metav1.GetOptions{})
		return err == nil && object.GetAnnotations()[silent] == "yes", err
	})
	if err != nil {
		return err
	}
	return p.merge("lease", node, `{"spec":{"holderIdentity":"nobody","leaseDurationSeconds":%d}}`, 1<<31-1)
}

// heal lets kwok take the Lease back, with its next try.
func (p *Play) heal(c *call) error {
	if err := p.merge("node", c.args[0], `{"metadata":{"annotations":{%q:null}}}`, silent); err != nil {
		return err
	}
	return p.merge("lease", c.args[0], `{"spec":{"holderIdentity":null}}`)
}

// merge changes a node or its Lease.
func (p *Play) merge(kind, name, patch string, args ...any) error {
	client, change := p.client.Resource(kindOf[kind]).Namespace(""), fmt.Appendf(nil, patch, args...)
	if kind == "lease" {
		client = p.client.Resource(kindOf[kind]).Namespace(corev1.NamespaceNodeLease)
	}
	return p.insist("patch "+kind+"/"+name, func() error {
		_, err := client.Patch(p.ctx, name, types.MergePatchType, change, metav1.PatchOptions{})
		return err
	})
}
