package play

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// silent is the annotation of a node that asks its kubelet for silence, and by which that answers.
const silent = "lab.kcm-book.io/silent"

// silence lets a node's kubelet fall silent. The Lease goes to somebody who does not renew it. But kwok looks at the
// Lease when something happens to the node, and not when it carries out what it has planned, such as the next heartbeat.
// So it is asked to plan none first, and its answer waited for.
func (p *Play) silence(c *call) error {
	node := c.args[0]
	if err := p.merge(p.nodes(), node, `{"metadata":{"annotations":{%q:"asked"}}}`, silent); err != nil {
		return err
	}
	err := p.wait("the kubelet of "+node+" is silent", func() (bool, error) {
		object, err := p.nodes().Get(p.ctx, node, metav1.GetOptions{})
		return err == nil && object.GetAnnotations()[silent] == "yes", err
	})
	if err != nil {
		return err
	}
	return p.merge(p.leases(), node, `{"spec":{"holderIdentity":"nobody","leaseDurationSeconds":%d}}`, 1<<31-1)
}

// heal lets kwok take the Lease back, with its next try, and waits until it has renewed it: then it knows that it has it.
// It has looked at the node's pods when it did not, and for nothing, so they are touched.
func (p *Play) heal(c *call) error {
	node := c.args[0]
	if err := p.merge(p.nodes(), node, `{"metadata":{"annotations":{%q:null}}}`, silent); err != nil {
		return err
	}
	if err := p.merge(p.leases(), node, `{"spec":{"holderIdentity":null}}`); err != nil {
		return err
	}
	taken := ""
	err := p.wait("the kubelet of "+node+" speaks again", func() (bool, error) {
		lease, err := p.leases().Get(p.ctx, node, metav1.GetOptions{})
		if err != nil || field(lease, "spec", "holderIdentity") == "" {
			return false, err
		}
		renewed := field(lease, "spec", "renewTime")
		taken = cmp.Or(taken, renewed)
		return renewed != taken, nil
	})
	if err != nil {
		return err
	}
	pods := p.client.Resource(kindOf["pod"])
	on, err := pods.List(p.ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	for i := 0; err == nil && i < len(on.Items); i++ {
		of := pods.Namespace(on.Items[i].GetNamespace())
		err = p.merge(of, on.Items[i].GetName(), `{"metadata":{"annotations":{"lab.kcm-book.io/healed":%q}}}`, taken)
	}
	return err
}

func (p *Play) nodes() dynamic.ResourceInterface { return p.client.Resource(kindOf["node"]) }

func (p *Play) leases() dynamic.ResourceInterface {
	return p.client.Resource(kindOf["lease"]).Namespace(corev1.NamespaceNodeLease)
}

func (p *Play) merge(of dynamic.ResourceInterface, name, patch string, args ...any) error {
	return p.insist("patch "+name, func() error {
		_, err := of.Patch(p.ctx, name, types.MergePatchType, fmt.Appendf(nil, patch, args...), metav1.PatchOptions{})
		return err
	})
}
