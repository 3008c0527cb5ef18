// Package validation has users, kubelets and nodes do whatever the API server lets them, and kcm's loops work on it, in
// a bubble of testing/synctest. What the loops write has to pass the validation of the original's API server, and no
// sync may be in conflict with what it has written itself.
package validation

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	corenamespace "k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
)

// strategy is what the original's API server does to what is written before it stores it, and what it refuses.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// strategies are those of resources and subresources that loops or users write.
var strategies = map[string]strategy{
	"certificatesigningrequests":          certificates.Strategy,
	"certificatesigningrequests/approval": certificates.ApprovalStrategy,
	"certificatesigningrequests/status":   certificates.StatusStrategy,
	"clusterrolebindings":                 clusterrolebinding.Strategy,
	"clusterroles":                        clusterrole.Strategy,
	"configmaps":                          configmap.Strategy,
	"controllerrevisions":                 controllerrevision.Strategy,
	"cronjobs":                            cronjob.Strategy, "cronjobs/status": cronjob.StatusStrategy,
	"daemonsets": daemonset.Strategy, "daemonsets/status": daemonset.StatusStrategy,
	"deployments": deployment.Strategy, "deployments/status": deployment.StatusStrategy,
	"endpoints":      endpoint.Strategy,
	"endpointslices": endpointslice.Strategy,
	"jobs":           job.Strategy, "jobs/status": job.StatusStrategy,
	"leases":     lease.Strategy,
	"namespaces": corenamespace.Strategy,
	"nodes":      node.Strategy, "nodes/status": node.StatusStrategy,
	"persistentvolumeclaims": persistentvolumeclaim.Strategy,
	"pods":                   pod.Strategy, "pods/status": pod.StatusStrategy,
	"replicasets": replicaset.Strategy, "replicasets/status": replicaset.StatusStrategy,
	"replicationcontrollers":        replicationcontroller.Strategy,
	"replicationcontrollers/status": replicationcontroller.StatusStrategy,
	"resourcequotas":                resourcequota.Strategy, "resourcequotas/status": resourcequota.StatusStrategy,
	"secrets":         secret.Strategy,
	"serviceaccounts": serviceaccount.Strategy,
	"services":        service.Strategy,
}

// object is one of any kind.
type object interface {
	runtime.Object
	metav1.Object
}

// admit returns what the original's API server stores of an object that is written in the place of the one that is
// there, nil if it is new, or why it refuses that.
func admit(resource schema.GroupVersionResource, subresource string, obj, there object) (object, error) {
	info := &genericapirequest.RequestInfo{APIGroup: resource.Group, APIVersion: resource.Version,
		Resource: resource.Resource, Subresource: subresource}
	name := resource.Resource
	if subresource != "" {
		name += "/" + subresource
	}
	by, namespace := strategies[name], obj.GetNamespace()
	ctx := genericapirequest.WithRequestInfo(genericapirequest.WithNamespace(context.Background(), namespace), info)
	if csr, is := obj.(*certificatesv1.CertificateSigningRequest); is {
		ctx = genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: csr.Spec.Username}) // who creates it
	}
	internal, err := decoded(resource, obj)
	switch {
	case err != nil:
		err = apierrors.NewBadRequest(err.Error())
	case there == nil:
		err = rest.BeforeCreate(by, ctx, internal)
	default:
		err = rest.BeforeUpdate(by, ctx, internal, done(decoded(resource, there)))
	}
	if err != nil {
		return nil, err
	}
	data := done(runtime.Encode(legacyscheme.Codecs.LegacyCodec(resource.GroupVersion()), internal))
	stored := done(runtime.Decode(scheme.Codecs.UniversalDeserializer(), data)).(object)
	stored.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return stored, nil
}

// decoded returns an object as the API server reads it from a request, with its defaults.
func decoded(resource schema.GroupVersionResource, obj runtime.Object) (runtime.Object, error) {
	data := done(runtime.Encode(legacyscheme.Codecs.LegacyCodec(resource.GroupVersion()), obj))
	return runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), data)
}
