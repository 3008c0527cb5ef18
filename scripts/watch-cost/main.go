// Command watch-cost measures what a watch receives when one address of a Service of 5,000 changes: once
// with all of them in one Endpoints object, once in EndpointSlices of 100. It works on the cluster of
// KUBECONFIG, in a namespace of its own, prints what it has measured, and draws it.
//
//	go run ./scripts/watch-cost scripts/watch-cost/5000-addresses.svg
package main

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// nodes is for how many watches the picture counts: each node has one.
const addresses, perSlice, nodes = 5000, 100, 5000

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
	config.ContentType = runtime.ContentTypeProtobuf // as kube-proxy has it
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	namespaces := client.CoreV1().Namespaces()
	namespace, err := namespaces.Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "watch-cost-"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	defer namespaces.Delete(ctx, namespace.Name, metav1.DeleteOptions{})
	// Nobody else writes the Endpoints of a Service without a selector, or deletes them.
	_, err = client.CoreV1().Services(namespace.Name).Create(ctx, &corev1.Service{ObjectMeta: meta(namespace.Name),
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	one, err := measure(ctx, client.CoreV1().RESTClient(), "endpoints", newEndpoints(namespace.Name))
	if err != nil {
		return fmt.Errorf("with Endpoints: %w", err)
	}
	sliced, err := measure(ctx, client.DiscoveryV1().RESTClient(), "endpointslices", newSlices(namespace.Name)...)
	if err != nil {
		return fmt.Errorf("with EndpointSlices: %w", err)
	}
	fmt.Printf("one of %d addresses changes, and a watch receives\n", addresses)
	fmt.Printf("  of an Endpoints object:         %7d bytes\n", one)
	fmt.Printf("  of EndpointSlices of %d each:  %7d bytes\n", perSlice, sliced)
	if len(os.Args) > 1 {
		return os.WriteFile(os.Args[1], []byte(draw(one, sliced)), 0o644)
	}
	return nil
}

func meta(namespace string) metav1.ObjectMeta {
	unmirrored := map[string]string{discoveryv1.LabelSkipMirror: "true"}
	return metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: unmirrored}
}

// address returns an address, its node and its pod.
func address(namespace string, i int) (ip string, node *string, pod *corev1.ObjectReference) {
	pod = &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: fmt.Sprintf("web-6d4b75cb6d-%05d", i),
		UID: "5d0a7d1c-7f6e-4c8e-9d67-0f2b8a4f0000"}
	return fmt.Sprintf("10.%d.%d.%d", i/65536, i/256%256, i%256), new(fmt.Sprint("node-", i)), pod
}

func newEndpoints(namespace string) object {
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}}}
	for i := range addresses {
		ip, node, pod := address(namespace, i)
		subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: ip, NodeName: node, TargetRef: pod})
	}
	return &corev1.Endpoints{ObjectMeta: meta(namespace), Subsets: []corev1.EndpointSubset{subset}}
}

func newSlices(namespace string) (slices []object) {
	for n := 0; n < addresses; n += perSlice {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "web-",
				Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{
				{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)},
			},
		}
		for i := n; i < n+perSlice; i++ {
			ip, node, pod := address(namespace, i)
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{ip}, NodeName: node, TargetRef: pod, Conditions: conditions(true),
			})
		}
		slices = append(slices, slice)
	}
	return slices
}

func conditions(ready bool) discoveryv1.EndpointConditions {
	return discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready, Terminating: new(false)}
}

type object interface {
	metav1.Object
	runtime.Object
}

// measure creates objects, has one address of the last become not ready, and returns how many bytes a watch
// receives by that. The API server ends the watch after five seconds.
func measure(ctx context.Context, client rest.Interface, resource string, objects ...object) (int64, error) {
	var last object
	for _, obj := range objects {
		created, err := client.Post().Namespace(obj.GetNamespace()).Resource(resource).Body(obj).Do(ctx).Get()
		if err != nil {
			return 0, err
		}
		last = created.(object)
	}
	watch, err := client.Get().Namespace(last.GetNamespace()).Resource(resource).
		Param("watch", "true").Param("resourceVersion", last.GetResourceVersion()).Param("timeoutSeconds", "5").
		SetHeader("Accept", "application/vnd.kubernetes.protobuf;stream=watch").Stream(ctx)
	if err != nil {
		return 0, err
	}
	defer watch.Close()
	switch last := last.(type) {
	case *corev1.Endpoints:
		subset := &last.Subsets[0]
		subset.NotReadyAddresses, subset.Addresses = subset.Addresses[:1], subset.Addresses[1:]
	case *discoveryv1.EndpointSlice:
		last.Endpoints[0].Conditions = conditions(false)
	}
	put := client.Put().Namespace(last.GetNamespace()).Resource(resource).Name(last.GetName()).Body(last)
	if err := put.Do(ctx).Error(); err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, watch)
	if n == 0 && err == nil {
		err = errors.New("the watch has received nothing")
	}
	return n, err
}

// draw returns an SVG of two bars: what all nodes together receive for this one change.
func draw(one, sliced int64) string {
	const width = 620
	svg := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="800" height="190" viewBox="0 0 800 190" `+
		`font-family="sans-serif" font-size="15">
  <rect width="800" height="190" fill="#ffffff"/>
  <text x="20" y="28" font-weight="bold">One of %d addresses changes, and each of %d nodes is told</text>
`, addresses, nodes)
	bar := func(y int, name string, bytes int64, colour string) {
		svg += fmt.Sprintf(`  <text x="20" y="%d">%s: %.1f KB for each node, %.2f GB for all</text>
  <rect x="20" y="%d" width="%.1f" height="22" fill="%s"/>
`, y, name, float64(bytes)/1e3, float64(bytes)*nodes/1e9, y+9, max(1, width*float64(bytes)/float64(one)), colour)
	}
	bar(60, "one Endpoints object", one, "#94a3b8")
	bar(125, fmt.Sprintf("EndpointSlices of %d", perSlice), sliced, "#1d4ed8")
	return svg + "</svg>\n"
}
