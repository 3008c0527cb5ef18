// Package daemon stands for k8s.io/kubernetes/pkg/controller/daemon.
package daemon

import (
	"context"

	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/kcm-book/kcm-book/kcm/controller/daemon"
)

// DaemonSetsController is kcm's.
type DaemonSetsController = daemon.Controller

// NewDaemonSetsController returns kcm's loop.
func NewDaemonSetsController(
	ctx context.Context,
	sets appsinformers.DaemonSetInformer,
	revisions appsinformers.ControllerRevisionInformer,
	pods coreinformers.PodInformer,
	nodes coreinformers.NodeInformer,
	client kubernetes.Interface,
	failures *flowcontrol.Backoff,
) (*DaemonSetsController, error) {
	return daemon.New(ctx, sets, revisions, pods, nodes, client, failures), nil
}
