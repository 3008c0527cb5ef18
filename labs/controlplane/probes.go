package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/labs/controlplane/internal/pki"
	"github.com/kcm-book/kcm-book/labs/controlplane/internal/supervised"
)

// How long one look at a component may take.
const probeTimeout = 5 * time.Second

// probes looks at components from outside, and does the little that the supervisor itself does in the cluster.
type probes struct {
	client    kubernetes.Interface
	admin     *http.Client // trusts the cluster's CA, and is the admin
	etcd      *http.Client // trusts etcd's CA, and is the API server
	ports     endpoints
	nodeCount int
}

func newProbes(c cluster, p *pki.Credentials, ports endpoints) (*probes, error) {
	admin, err := httpClient(p.CA, p.Clients["admin"])
	if err != nil {
		return nil, err
	}
	etcd, err := httpClient(p.EtcdCA, p.Etcd)
	if err != nil {
		return nil, err
	}
	config := &rest.Config{Host: c.Server, UserAgent: "labcluster", QPS: -1}
	client, err := kubernetes.NewForConfigAndClient(config, admin)
	return &probes{client: client, admin: admin, etcd: etcd, ports: ports, nodeCount: c.Nodes}, err
}

func httpClient(ca *pki.Authority, pair pki.KeyPair) (*http.Client, error) {
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}}}
	return &http.Client{Transport: transport, Timeout: probeTimeout}, nil
}

// ready returns nil if the component can be used.
func (p *probes) ready(ctx context.Context, component *supervised.Process) error {
	switch component.Name {
	case etcdName:
		return get(ctx, p.etcd, loopback(p.ports.etcd)+"/health")
	case apiserverName:
		return get(ctx, p.admin, loopback(p.ports.apiserver)+"/readyz")
	case schedulerName:
		return get(ctx, p.admin, loopback(p.ports.scheduler)+"/readyz")
	case kwokName:
		return p.leasesRenewed(ctx, component.Started())
	}
	return fmt.Errorf("unknown component %s", component.Name)
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, strings.TrimSpace(string(body)))
	}
	return err
}

// leasesRenewed returns nil if every node has sent a heartbeat since then.
func (p *probes) leasesRenewed(ctx context.Context, since time.Time) error {
	nodes, err := p.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	leases, err := p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	renewed := map[string]bool{}
	for _, lease := range leases.Items {
		renewed[lease.Name] = lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(since)
	}
	for _, node := range nodes.Items {
		if !renewed[node.Name] {
			return fmt.Errorf("node %s has not renewed its Lease", node.Name)
		}
	}
	return nil
}

func (p *probes) deleteLeases(ctx context.Context) error {
	all := metav1.ListOptions{}
	err := p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).DeleteCollection(ctx, metav1.DeleteOptions{}, all)
	if err != nil {
		return fmt.Errorf("delete the nodes' Leases: %w", err)
	}
	return nil
}

// createNodes registers the nodes that are not there yet as a kubelet would; kwok then makes them Ready.
func (p *probes) createNodes(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range p.nodeCount {
		group.Go(func() error {
			_, err := p.client.CoreV1().Nodes().Create(ctx, newNode(i+1), metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create node: %w", err)
			}
			return nil
		})
	}
	return group.Wait()
}

func newNode(number int) *corev1.Node {
	name := fmt.Sprintf("node-%d", number)
	size := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("64"),
		corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods:   resource.MustParse("1000"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:             name,
				corev1.LabelOSStable:             "linux",
				corev1.LabelArchStable:           "amd64",
				"node-role.kubernetes.io/worker": "",
			},
		},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("172.18.%d.%d", number/200, 10+number%200)},
				{Type: corev1.NodeHostName, Address: name},
			},
			Capacity:    size,
			Allocatable: size,
		},
	}
}

// nodesReady returns nil if pods can be scheduled to all nodes.
func (p *probes) nodesReady(ctx context.Context) error {
	nodes, err := p.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(nodes.Items) < p.nodeCount {
		return fmt.Errorf("%d of %d nodes are registered", len(nodes.Items), p.nodeCount)
	}
	for _, node := range nodes.Items {
		if err := schedulable(&node); err != nil {
			return err
		}
	}
	return nil
}

func schedulable(node *corev1.Node) error {
	if len(node.Spec.Taints) > 0 {
		return fmt.Errorf("node %s has taint %s", node.Name, node.Spec.Taints[0].Key)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New("node " + node.Name + " is not Ready")
}

// poll calls done until it returns nil, and gives up with its last error when ctx ends.
func poll(ctx context.Context, what string, done func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := done(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return reason(ctx, fmt.Errorf("%s: not within %v: %w", what, startTimeout, err))
		case <-ticker.C:
		}
	}
}

// reason returns why ctx has ended, if somebody has ended it, because errors of what it interrupted do not tell. If it
// has run out of time or has not ended at all, what failed says more.
func reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return err
}
