package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

type object interface {
	metav1.Object
	runtime.Object
}

// request returns a request about an object of any kind that bench has to do with.
func (t *trial) request(verb string, obj object) *rest.Request {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	must(err)
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	group := map[string]rest.Interface{
		"": t.client.CoreV1().RESTClient(), "apps": t.client.AppsV1().RESTClient(), "batch": t.client.BatchV1().RESTClient(),
		"coordination.k8s.io": t.client.CoordinationV1().RESTClient(),
	}[resource.Group]
	return group.Verb(verb).NamespaceIfScoped(obj.GetNamespace(), obj.GetNamespace() != "").Resource(resource.Resource)
}

// create returns what the API server has made of the object.
func (t *trial) create(obj object) object {
	created, err := t.request("POST", obj).Body(obj).Do(t.ctx).Get()
	must(err)
	return created.(object)
}

// patch changes the object that has the kind and the name of this one.
func (t *trial) patch(obj object, patch string) {
	request := t.request("PATCH", obj).Name(obj.GetName()).SetHeader("Content-Type", string(types.MergePatchType))
	must(request.Body([]byte(patch)).Do(t.ctx).Error())
}

// delete deletes the object that has the kind and the name of this one, if it is there, and then what it owns.
func (t *trial) delete(obj object) {
	background := &metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	err := t.request("DELETE", obj).Name(obj.GetName()).Body(background).Do(t.ctx).Error()
	if !apierrors.IsNotFound(err) {
		must(err)
	}
}

// createNamespaces creates namespaces, with the ServiceAccount that pods need.
func (t *trial) createNamespaces(names ...string) {
	for _, name := range names {
		t.create(&corev1.Namespace{ObjectMeta: named("", name)})
		t.create(&corev1.ServiceAccount{ObjectMeta: named(name, "default")})
	}
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// newDeployment returns a Deployment with the API's defaults: a rolling update may have 25 % of the
// pods too many and 25 % unavailable.
func newDeployment(namespace, name string, replicas int) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: named(namespace, name), Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(replicas)), Selector: selector(name), Template: newTemplate(name),
	}}
}

// createDeployments creates n Deployments, which are numbered.
func (t *trial) createDeployments(namespace string, n, replicas int) {
	inParallel(n, fewClients, func(i int) { t.create(newDeployment(namespace, numbered(i), replicas)) })
}

func numbered(i int) string { return fmt.Sprintf("web-%05d", i) }

// withImage is the patch of a Deployment's image.
func withImage(image string) string {
	return `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"` + image + `"}]}}}}`
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func newTemplate(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
}

func newPod(namespace, name string) *corev1.Pod {
	template := newTemplate("web")
	template.Namespace, template.Name = namespace, name
	return &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
}
