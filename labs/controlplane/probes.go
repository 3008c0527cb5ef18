package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	nodeutil "k8s.io/kubernetes/pkg/util/node"
)

// How long one look at a component may take.
const probeTimeout = 5 * time.Second

// prober asks components whether they are ready, which anybody may. A component that could not listen where it should
// has ended, so who answers is not doubted.
var prober = &http.Client{Timeout: probeTimeout, Transport: &http.Transport{
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
}}

// ready returns nil if the component can be used.
func (s *supervisor) ready(ctx context.Context, name string) error {
	var url string
	switch name {
	case kwokName:
		return s.heartbeats(ctx)
	case etcdName:
		url = fmt.Sprintf("http://127.0.0.1:%d/health", s.ports.etcdHealth)
	case apiserverName:
		url = loopback(s.ports.apiserver) + "/readyz"
	case schedulerName:
		url = loopback(s.ports.scheduler) + "/readyz"
	}
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	response, err := prober.Do(request)
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

// kubelet is a label of nodes, which says whether their kubelets speak. Kwok plays those that do, with their pods. One
// that speaks no more is, to kwok, gone. (A Lease that somebody else has keeps kwok from a node's pods only by chance.)
const (
	kubelet = "lab.kcm-book.io/kubelet"
	speaks  = "speaks"
)

// heartbeats returns nil if every node whose kubelet speaks has a Lease, after they were deleted.
func (s *supervisor) heartbeats(ctx context.Context) error {
	nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: kubelet + "=" + speaks})
	if err != nil {
		return err
	}
	leases, err := s.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	if err == nil && len(leases.Items) < len(nodes.Items) {
		err = fmt.Errorf("%d of %d nodes have a Lease", len(leases.Items), len(nodes.Items))
	}
	return err
}

// createNodes registers the nodes that are not there yet as a kubelet would; kwok then makes them Ready.
func (s *supervisor) createNodes(ctx context.Context) error {
	for number := 1; number <= s.cluster.Nodes; number++ {
		_, err := s.client.CoreV1().Nodes().Create(ctx, newNode(number), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create node: %w", err)
		}
	}
	return nil
}

// newNode is a node whose size kwok adds.
func newNode(number int) *corev1.Node {
	node := &corev1.Node{}
	node.Name = fmt.Sprintf("node-%d", number)
	node.Labels = map[string]string{
		corev1.LabelHostname:             node.Name,
		corev1.LabelOSStable:             "linux",
		corev1.LabelArchStable:           "amd64",
		"node-role.kubernetes.io/worker": "",
		kubelet:                          speaks,
	}
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("172.18.%d.%d", number/200, 10+number%200)},
		{Type: corev1.NodeHostName, Address: node.Name},
	}
	return node
}

// letSpeak lets the kubelets of nodes speak that nobody has told to be silent, until ctx ends.
func (s *supervisor) letSpeak(ctx context.Context) {
	klog.LogToStderr(false) // where progress is told
	klog.SetOutput(s.log.Writer())
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, kubelet, speaks)
	label := func(object any) {
		node := object.(*corev1.Node)
		if _, told := node.Labels[kubelet]; told {
			return
		}
		_, err := s.client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			s.log.Printf("label node %s: %v", node.Name, err)
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(s.watches.CoreV1().RESTClient(), "nodes", "", fields.Everything()),
		ObjectType:    &corev1.Node{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: label, UpdateFunc: func(_, node any) { label(node) },
		},
	})
	informer.RunWithContext(ctx)
}

// nodesReady returns nil if pods can be scheduled to all nodes.
func (s *supervisor) nodesReady(ctx context.Context) error {
	nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(nodes.Items) < s.cluster.Nodes {
		return fmt.Errorf("%d of %d nodes are registered", len(nodes.Items), s.cluster.Nodes)
	}
	for _, node := range nodes.Items {
		switch {
		case len(node.Spec.Taints) > 0:
			return fmt.Errorf("node %s has taint %s", node.Name, node.Spec.Taints[0].Key)
		case !nodeutil.IsNodeReady(&node):
			return fmt.Errorf("node %s is not Ready", node.Name)
		}
	}
	return nil
}
