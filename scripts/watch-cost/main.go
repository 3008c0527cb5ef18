// Command watch-cost measures what a watch receives when one address of a
// Service of 5,000 changes: once with all of them in one Endpoints object, once
// in EndpointSlices of 100. It works on the cluster of KUBECONFIG, in a namespace
// of its own, prints what it has measured, and draws it.
//
//	go run ./scripts/watch-cost scripts/watch-cost/5000-addresses.svg
package main

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	addresses = 5000
	perSlice  = 100
	// nodes is for how many watches the picture counts: each node has one.
	nodes = 5000
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal("watch-cost: ", err)
	}
}

func run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("KUBECONFIG: %w; make cluster, then eval \"$(make env)\"", err)
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf" // as kube-proxy has it
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	namespace, err := client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "watch-cost-"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	defer client.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{})
	one, err := measureEndpoints(ctx, client, namespace.Name)
	if err != nil {
		return fmt.Errorf("with Endpoints: %w", err)
	}
	sliced, err := measureSlices(ctx, client, namespace.Name)
	if err != nil {
		return fmt.Errorf("with EndpointSlices: %w", err)
	}
	fmt.Printf("one of %d addresses changes, and a watch receives\n", addresses)
	fmt.Printf("  of an Endpoints object:         %7d bytes\n", one)
	fmt.Printf("  of EndpointSlices of %d each:  %7d bytes\n", perSlice, sliced)
	if len(os.Args) > 1 {
		return os.WriteFile(os.Args[1], draw(one, sliced), 0o644)
	}
	return nil
}

func address(i int) (ip, pod string) {
	return fmt.Sprintf("10.%d.%d.%d", i/65536, i/256%256, i%256), fmt.Sprintf("web-6d4b75cb6d-%05d", i)
}

func target(namespace, pod string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod, UID: "5d0a7d1c-7f6e-4c8e-9d67-0f2b8a4f0000"}
}

// measureEndpoints has one of the addresses become not ready.
func measureEndpoints(ctx context.Context, client kubernetes.Interface, namespace string) (int64, error) {
	all := make([]corev1.EndpointAddress, addresses)
	for i := range all {
		ip, pod := address(i)
		all[i] = corev1.EndpointAddress{IP: ip, NodeName: new(fmt.Sprint("node-", i)), TargetRef: target(namespace, pod)}
	}
	endpoints := &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}},
		Subsets:    []corev1.EndpointSubset{{Addresses: all, Ports: []corev1.EndpointPort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}}}},
	}
	// A Service without a selector: nobody else writes these Endpoints, or deletes them.
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	if _, err := client.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	created, err := client.CoreV1().Endpoints(namespace).Create(ctx, endpoints, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	return received(ctx, client, "/api/v1/namespaces/"+namespace+"/endpoints", created.ResourceVersion, func() error {
		subset := &created.Subsets[0]
		subset.NotReadyAddresses = subset.Addresses[:1]
		subset.Addresses = subset.Addresses[1:]
		_, err := client.CoreV1().Endpoints(namespace).Update(ctx, created, metav1.UpdateOptions{})
		return err
	})
}

// measureSlices has one of the endpoints become not ready.
func measureSlices(ctx context.Context, client kubernetes.Interface, namespace string) (int64, error) {
	var last *discoveryv1.EndpointSlice
	for n := 0; n < addresses; n += perSlice {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{GenerateName: "web-", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
		}
		for i := n; i < n+perSlice; i++ {
			ip, pod := address(i)
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{ip}, NodeName: new(fmt.Sprint("node-", i)), TargetRef: target(namespace, pod),
				Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			})
		}
		created, err := client.DiscoveryV1().EndpointSlices(namespace).Create(ctx, slice, metav1.CreateOptions{})
		if err != nil {
			return 0, err
		}
		last = created
	}
	return received(ctx, client, "/apis/discovery.k8s.io/v1/namespaces/"+namespace+"/endpointslices", last.ResourceVersion, func() error {
		last.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false), Terminating: new(false)}
		_, err := client.DiscoveryV1().EndpointSlices(namespace).Update(ctx, last, metav1.UpdateOptions{})
		return err
	})
}

// received returns how many bytes a watch from a version on receives by a change
// until nothing has come for a second.
func received(ctx context.Context, client kubernetes.Interface, path, version string, change func() error) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	watch, err := client.CoreV1().RESTClient().Get().AbsPath(path).Param("watch", "true").Param("resourceVersion", version).
		SetHeader("Accept", "application/vnd.kubernetes.protobuf;stream=watch").Stream(ctx)
	if err != nil {
		return 0, err
	}
	defer watch.Close()
	var count atomic.Int64
	go func() { _, _ = io.Copy(counter{&count}, watch) }() // it ends with the watch
	if err := change(); err != nil {
		return 0, err
	}
	for before := int64(0); ; {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("the watch has received nothing: %w", ctx.Err())
		case <-time.After(time.Second):
		}
		now := count.Load()
		if now > 0 && now == before {
			return now, nil
		}
		before = now
	}
}

type counter struct{ count *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.count.Add(int64(len(p)))
	return len(p), nil
}

// draw returns two bars: what all nodes together receive for this one change.
func draw(one, sliced int64) []byte {
	const width = 620
	var out bytes.Buffer
	fmt.Fprintln(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="800" height="190" viewBox="0 0 800 190" font-family="sans-serif" font-size="15">`)
	fmt.Fprintln(&out, `  <rect width="800" height="190" fill="#ffffff"/>`)
	fmt.Fprintf(&out, `  <text x="20" y="28" font-weight="bold">One of %d addresses changes, and each of %d nodes is told</text>`+"\n", addresses, nodes)
	for i, bar := range []struct {
		name  string
		bytes int64
		color string
	}{{"one Endpoints object", one, "#94a3b8"}, {fmt.Sprintf("EndpointSlices of %d", perSlice), sliced, "#1d4ed8"}} {
		y := 60 + 65*i
		fmt.Fprintf(&out, `  <text x="20" y="%d">%s: %.1f KB for each node, %.2f GB for all</text>`+"\n",
			y, bar.name, float64(bar.bytes)/1e3, float64(bar.bytes)*nodes/1e9)
		fmt.Fprintf(&out, `  <rect x="20" y="%d" width="%.1f" height="22" fill="%s"/>`+"\n", y+9, max(1, width*float64(bar.bytes)/float64(one)), bar.color)
	}
	fmt.Fprintln(&out, "</svg>")
	return out.Bytes()
}
