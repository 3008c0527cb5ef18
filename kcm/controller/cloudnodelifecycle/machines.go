package cloudnodelifecycle

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// machines is what the loop asks a cloud. It is a part of
// [cloudprovider.InstancesV2].
type machines interface {
	InstanceExists(ctx context.Context, node *corev1.Node) (bool, error)
	InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error)
}

// machinesOf returns whom to ask about the machines of a cloud, or nil where it
// knows none.
func machinesOf(cloud cloudprovider.Interface) machines {
	if instances, ok := cloud.InstancesV2(); ok {
		return instances
	}
	if instances, ok := cloud.Instances(); ok {
		return byProviderID{cloud, instances}
	}
	return nil
}

// byProviderID asks a cloud of the older kind, which knows machines by an ID
// alone.
type byProviderID struct {
	cloud     cloudprovider.Interface
	instances cloudprovider.Instances
}

// InstanceExists tells whether there is a machine of the node's ID, or one of
// its name where the node has none.
func (b byProviderID) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	id, err := b.id(ctx, node)
	if err != nil {
		return false, unless(err, cloudprovider.InstanceNotFound)
	}
	return b.instances.InstanceExistsByProviderID(ctx, id)
}

// InstanceShutdown tells whether that machine is shut down. Not every cloud can
// tell; of such a one no machine is.
func (b byProviderID) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	id, err := b.id(ctx, node)
	if err != nil {
		return false, unless(err, cloudprovider.InstanceNotFound)
	}
	shut, err := b.instances.InstanceShutdownByProviderID(ctx, id)
	return shut, unless(err, cloudprovider.NotImplemented)
}

func (b byProviderID) id(ctx context.Context, node *corev1.Node) (string, error) {
	if node.Spec.ProviderID != "" {
		return node.Spec.ProviderID, nil
	}
	return cloudprovider.GetInstanceProviderID(ctx, b.cloud, types.NodeName(node.Name))
}

// unless returns err, but nil for one that is an answer.
func unless(err, answer error) error {
	if errors.Is(err, answer) {
		return nil
	}
	return err
}
