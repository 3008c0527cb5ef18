package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// How long a part of a kind cluster may take to be as it should, and how often we look.
const (
	kindPatience = 3 * time.Minute
	kindLook     = 200 * time.Millisecond
)

// until calls done until it returns nil, and gives up with its last error.
func until(ctx context.Context, what string, done func(context.Context) error) error {
	var missing error
	err := wait.PollUntilContextTimeout(ctx, kindLook, kindPatience, true, func(ctx context.Context) (bool, error) {
		if err := done(ctx); ctx.Err() == nil {
			missing = err
		}
		return missing == nil, nil
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("waited %v until %s: %w", kindPatience, what, missing)
	}
	return nil
}

// waitUntilReady waits until all is up that needs a controller manager to come up.
func (c *kindCluster) waitUntilReady(ctx context.Context) error {
	err := until(ctx, "the node and DNS are up", func(ctx context.Context) error {
		for _, ready := range []func(context.Context) error{c.nodeReady, c.deploymentsAvailable, c.accountsCreated} {
			if err := ready(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return c.withLog(ctx, err)
}

func (c *kindCluster) nodeReady(ctx context.Context) error {
	node, err := c.client.CoreV1().Nodes().Get(ctx, c.node.String(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(node.Spec.Taints) > 0 {
		return fmt.Errorf("the node has the taint %s", node.Spec.Taints[0].Key)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New("the node is not Ready")
}

// deploymentsAvailable is about DNS and whatever else a node image brings along.
func (c *kindCluster) deploymentsAvailable(ctx context.Context) error {
	deployments, err := c.client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(deployments.Items) == 0 {
		return errors.New("there is no Deployment of DNS")
	}
	for _, d := range deployments.Items {
		if d.Status.ObservedGeneration < d.Generation || d.Status.AvailableReplicas < *d.Spec.Replicas {
			return fmt.Errorf("the Deployment %s/%s has %d of %d pods available", d.Namespace, d.Name, d.Status.AvailableReplicas, *d.Spec.Replicas)
		}
	}
	return nil
}

// accountsCreated says whether pods can be created in the namespaces that there are.
func (c *kindCluster) accountsCreated(ctx context.Context) error {
	namespaces, err := c.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range namespaces.Items {
		if _, err := c.client.CoreV1().ServiceAccounts(n.Name).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return err
		}
		if _, err := c.client.CoreV1().ConfigMaps(n.Name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{}); err != nil {
			return err
		}
	}
	return nil
}

const builtInManager = "kube-controller-manager"

// removeControllerManager ends the controller manager that kind has started, and frees its Lease. The kubelet runs what it
// finds in the directory manifests.
func (c *kindCluster) removeControllerManager(ctx context.Context) error {
	const manifest = "/etc/kubernetes/manifests/" + builtInManager + ".yaml"
	if _, err := c.inNode(ctx, "mv", manifest, "/etc/kubernetes/"); err != nil {
		return err
	}
	err := until(ctx, "kind's own controller manager has ended", func(ctx context.Context) error {
		container, err := c.inNode(ctx, "crictl", "ps", "--quiet", "--name=^"+builtInManager+"$")
		if err == nil && container != "" {
			err = errors.New("container " + strings.TrimSpace(container) + " runs")
		}
		return err
	})
	if err != nil {
		return err
	}
	err = c.client.CoordinationV1().Leases(metav1.NamespaceSystem).Delete(ctx, builtInManager, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("free the Lease of kind's own controller manager: %w", err)
	}
	return nil
}
