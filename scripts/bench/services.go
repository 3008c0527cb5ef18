package main

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

const (
	// servedPods are behind the Service that is rolled out.
	servedPods = 1000
	// relabels is how often a pod leaves its Service or comes back.
	relabels = 200
)

// addressing are the loops that tell of the pods of Services.
var addressing = append([]string{loops("endpoints-controller", "endpointslice-controller")}, wideLimits...)

// rollOutService: a headless Service with a Deployment behind it, from its creation and from an update until
// EndpointSlices and Endpoints have all pods and no others. Both run no other loops, and the pods are the
// original's in both cases. All requests are writes of slices and Endpoints.
func rollOutService(t *trial) {
	t.createNamespaces("rollout")
	t.flags = addressing
	t.lead()
	t.start(original, slices.Concat(wideLimits, []string{"--leader-elect=false",
		loops("deployment-controller", "replicaset-controller")})...)
	t.create(newService("rollout", "web"))
	web := newDeployment("rollout", "web", servedPods)
	t.measureRollout("Service of 1000 pods that come", "web:1", func() { t.create(web) })
	t.measureRollout("Service of 1000 pods rolled out", "web:2", func() { t.patch(web, withImage("web:2")) })
}

// measureRollout starts something and waits until all pods run an image and are told of.
func (t *trial) measureRollout(name, image string, start func()) {
	before := t.in("rollout")[writesForNobody]
	t.measure(name, 1, start, marks{
		"all pods ready": t.when("rollout", tally{serving: servedPods, serving + image: servedPods}),
		"all told": t.when("rollout", tally{existing: servedPods, serving: servedPods, serving + image: servedPods,
			endpointsInAll: servedPods, readyInSlices: servedPods, readyInEndpoints: servedPods}),
	})
	t.note(name, writesForNobody, "", float64(t.in("rollout")[writesForNobody]-before))
}

// newService returns one whose pods have a label of its name.
func newService(namespace, name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: named(namespace, name), Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, // there are not addresses enough for all
		Selector:  map[string]string{"app": name},
		Ports:     []corev1.ServicePort{{Name: "http", Port: 80}},
	}}
}

// changeAmongServices: a pod's label is changed, so that it leaves its Service and comes back, among few other
// Services of its namespace and among many, each time until both forms tell it.
func changeAmongServices(t *trial) {
	t.flags = addressing
	t.lead()
	t.changeAmong("few", 10)
	t.changeAmong("many", 1000)
}

func (t *trial) changeAmong(namespace string, others int) {
	t.createNamespaces(namespace)
	inParallel(others, manyClients, func(i int) { t.create(newService(namespace, fmt.Sprint("other-", i))) })
	t.create(newService(namespace, "web"))
	pod := newPod(namespace, "web")
	t.create(pod)
	t.await(t.when(namespace, tally{serving: 1, readyInSlices: 1, readyInEndpoints: 1,
		slicesThere: others + 1, endpointsThere: others + 1}))
	t.measure(fmt.Sprintf("%d changes of a pod among %d Services, one after the other", relabels, others), relabels, func() {
		for i := range relabels {
			label, want := "none", 0
			if i%2 == 1 {
				label, want = "web", 1
			}
			told := t.when(namespace, tally{readyInSlices: want, readyInEndpoints: want})
			t.patch(pod, `{"metadata":{"labels":{"app":"`+label+`"}}}`)
			t.await(told)
		}
	}, nil)
}
