// Package cloud is a cloud for labs, in a file. A program that imports it knows
// --cloud-provider=lab, as one that imports the provider of a real cloud knows
// that, and --cloud-config is the cloud:
//
//	clusterID: lab
//	machines: {node-0: running, node-1: shut down}
//
// Who changes the file changes the cloud. A machine that is not there any more is
// gone. With delay: 3s an answer takes that long, and with error: out of order
// there is none but this. A file that cannot be read is an error, too, and so is
// one without machines, which is what somebody else sees while it is written.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/yaml"
)

// Name is what --cloud-provider calls this cloud.
const Name = "lab"

func init() { cloudprovider.RegisterCloudProvider(Name, open) }

// What machines may be. Those that are not there are gone.
const (
	running  = "running"
	shutDown = "shut down"
)

// state is what stands in the file.
type state struct {
	// ClusterID marks the machines as those of one cluster.
	ClusterID string            `json:"clusterID"`
	Machines  map[string]string `json:"machines"`
	Delay     metav1.Duration   `json:"delay"`
	Error     string            `json:"error"`
}

// lab is the cloud in a file.
type lab struct{ file string }

// open takes the name of the file and no more: what stands in it is read when
// somebody asks.
func open(config io.Reader) (cloudprovider.Interface, error) {
	file, ok := config.(*os.File)
	if !ok {
		return nil, errors.New("it needs a file, see --cloud-config")
	}
	l := lab{file.Name()}
	if _, err := l.read(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l lab) read() (*state, error) {
	text, err := os.ReadFile(l.file)
	if err != nil {
		return nil, err
	}
	s := &state{}
	if err := yaml.UnmarshalStrict(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", l.file, err)
	}
	if s.Machines == nil {
		return nil, fmt.Errorf("%s: it does not say which machines there are", l.file)
	}
	for name, is := range s.Machines {
		if is != running && is != shutDown {
			return nil, fmt.Errorf("%s: machine %s is %q; it can be %q or %q", l.file, name, is, running, shutDown)
		}
	}
	return s, nil
}

// machine returns what the machine of a node is, or "" if it is gone, when the
// answer has taken its time.
func (l lab) machine(ctx context.Context, node *corev1.Node) (string, error) {
	s, err := l.read()
	if err != nil {
		return "", err
	}
	select {
	case <-time.After(s.Delay.Duration):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if s.Error != "" {
		return "", errors.New(s.Error)
	}
	name, ok := strings.CutPrefix(node.Spec.ProviderID, Name+"://")
	if !ok {
		name = node.Name
	}
	return s.Machines[name], nil
}

// InstanceExists implements [cloudprovider.InstancesV2].
func (l lab) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	is, err := l.machine(ctx, node)
	return is != "", err
}

// InstanceShutdown implements [cloudprovider.InstancesV2].
func (l lab) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	is, err := l.machine(ctx, node)
	return is == shutDown, err
}

// InstanceMetadata implements [cloudprovider.InstancesV2].
func (l lab) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	is, err := l.machine(ctx, node)
	if err != nil {
		return nil, err
	}
	if is == "" {
		return nil, cloudprovider.InstanceNotFound
	}
	return &cloudprovider.InstanceMetadata{ProviderID: Name + "://" + node.Name}, nil
}

// HasClusterID implements [cloudprovider.Interface].
func (l lab) HasClusterID() bool {
	s, err := l.read()
	return err == nil && s.ClusterID != ""
}

// InstancesV2 implements [cloudprovider.Interface], as do those below: this cloud
// has machines, and nothing else.
func (l lab) InstancesV2() (cloudprovider.InstancesV2, bool) { return l, true }

func (l lab) ProviderName() string { return Name }

func (l lab) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

func (l lab) Instances() (cloudprovider.Instances, bool) { return nil, false }

func (l lab) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

func (l lab) Zones() (cloudprovider.Zones, bool) { return nil, false }

func (l lab) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

func (l lab) Routes() (cloudprovider.Routes, bool) { return nil, false }
