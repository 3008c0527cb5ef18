package kind

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/labs/await"
)

// until waits for a part of a kind cluster, for three minutes at most.
func until(ctx context.Context, what string, look func(context.Context) error) error {
	return await.Until(ctx, 200*time.Millisecond, 3*time.Minute, what, look)
}

// waitUntilReady waits until all is up that needs a controller manager to come up.
func (c *Cluster) waitUntilReady(ctx context.Context) error {
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

func (c *Cluster) nodeReady(ctx context.Context) error {
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
func (c *Cluster) deploymentsAvailable(ctx context.Context) error {
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
func (c *Cluster) accountsCreated(ctx context.Context) error {
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

// removeControllerManager ends the controller manager that kind has started, and frees its Lease.
func (c *Cluster) removeControllerManager(ctx context.Context) error {
	if err := c.takeAway(ctx, builtInManager); err != nil {
		return err
	}
	err := c.client.CoordinationV1().Leases(metav1.NamespaceSystem).Delete(ctx, builtInManager, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("free the Lease of kind's own controller manager: %w", err)
	}
	return nil
}
