package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/labs/await"
)

// until waits for a part of a kind cluster, for three minutes at most.
func until(ctx context.Context, what string, look func(context.Context) error) error {
	return await.Until(ctx, 200*time.Millisecond, 3*time.Minute, what, look)
}

// waitUntilReady waits until all is up that needs a controller manager to come up.
func (c *kindCluster) waitUntilReady(ctx context.Context) error {
	return c.withLog(ctx, until(ctx, "DNS and the first ServiceAccounts are up", c.ready))
}

func (c *kindCluster) ready(ctx context.Context) error {
	node, err := c.client.CoreV1().Nodes().Get(ctx, c.node.String(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	c.arch = node.Status.NodeInfo.Architecture
	// DNS and whatever else a node image brings along run only if the node is Ready and has no taint.
	deployments, err := c.client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err == nil && len(deployments.Items) == 0 {
		err = errors.New("there is no Deployment of DNS")
	}
	if err != nil {
		return err
	}
	for _, d := range deployments.Items {
		available, wanted := d.Status.AvailableReplicas, *d.Spec.Replicas
		if d.Status.ObservedGeneration < d.Generation || available < wanted {
			return fmt.Errorf("the Deployment %s/%s has %d of %d pods available", d.Namespace, d.Name, available, wanted)
		}
	}
	// Pods can be created only in a namespace that has these.
	namespaces, err := c.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range namespaces.Items {
		_, accountErr := c.client.CoreV1().ServiceAccounts(n.Name).Get(ctx, "default", metav1.GetOptions{})
		_, caErr := c.client.CoreV1().ConfigMaps(n.Name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		if err := cmp.Or(accountErr, caErr); err != nil {
			return err
		}
	}
	return nil
}

const builtInManager = "kube-controller-manager"

// removeControllerManager ends the controller manager that kind has started, and frees its Lease.
func (c *kindCluster) removeControllerManager(ctx context.Context) error {
	if err := c.takeAway(ctx, builtInManager); err != nil {
		return err
	}
	err := c.client.CoordinationV1().Leases(metav1.NamespaceSystem).Delete(ctx, builtInManager, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("free the Lease of kind's own controller manager: %w", err)
	}
	return nil
}
