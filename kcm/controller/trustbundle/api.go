package trustbundle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	alphainformers "k8s.io/client-go/informers/certificates/v1alpha1"
	betainformers "k8s.io/client-go/informers/certificates/v1beta1"
	"k8s.io/client-go/kubernetes"
	alphaclient "k8s.io/client-go/kubernetes/typed/certificates/v1alpha1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// api is that of ClusterTrustBundles in the version that the API server serves.
// Both versions have the same fields, so the loop knows one of them.
type api struct {
	writer
	// informer shows the bundles of the one signer.
	informer cache.SharedIndexInformer
}

type writer interface {
	Create(ctx context.Context, bundle *certificatesv1beta1.ClusterTrustBundle, options metav1.CreateOptions) (*certificatesv1beta1.ClusterTrustBundle, error)
	Update(ctx context.Context, bundle *certificatesv1beta1.ClusterTrustBundle, options metav1.UpdateOptions) (*certificatesv1beta1.ClusterTrustBundle, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// findAPI asks the API server which version it serves, the newer one first. If it
// serves none, or does not say, it is asked again, after a second, and then after
// twice as long each time, up to 1000 seconds: it may be the next to be upgraded.
// The result is nil if ctx ends before.
func findAPI(ctx context.Context, client kubernetes.Interface) (found *api) {
	delays := wait.Backoff{Duration: time.Second, Factor: 2, Steps: 10, Cap: 1000 * time.Second}.DelayFunc()
	_ = delays.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		beta, errBeta := isServed(ctx, client, certificatesv1beta1.SchemeGroupVersion)
		alpha, errAlpha := isServed(ctx, client, certificatesv1alpha1.SchemeGroupVersion)
		switch {
		case beta:
			found = betaAPI(client)
		case alpha && errBeta == nil:
			found = alphaAPI(client)
		default:
			klog.FromContext(ctx).Info("The API server serves no cluster trust bundles so far, and none is published", "err", errors.Join(errBeta, errAlpha))
		}
		return found != nil, nil
	})
	return found
}

// isServed tells whether the API server serves ClusterTrustBundles in a version. The
// methods of the discovery client take no context, and Run would not end before a silent
// API server has answered.
func isServed(ctx context.Context, client kubernetes.Interface, version schema.GroupVersion) (bool, error) {
	var list metav1.APIResourceList
	err := client.Discovery().RESTClient().Get().AbsPath("/apis", version.Group, version.Version).Do(ctx).Into(&list)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("discover %s: %w", version, err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "clustertrustbundles" }), nil
}

func betaAPI(client kubernetes.Interface) *api {
	return &api{
		client.CertificatesV1beta1().ClusterTrustBundles(),
		betainformers.NewFilteredClusterTrustBundleInformer(client, 0, cache.Indexers{}, ofTheSigner),
	}
}

func alphaAPI(client kubernetes.Interface) *api {
	return &api{
		alphaWriter{client.CertificatesV1alpha1().ClusterTrustBundles()},
		alphainformers.NewFilteredClusterTrustBundleInformer(client, 0, cache.Indexers{}, ofTheSigner),
	}
}

// ofTheSigner has an informer ask for no bundles but those of the signer. Others,
// which may be many and large, are nobody's business here.
func ofTheSigner(options *metav1.ListOptions) {
	controller.Newest(options)
	options.FieldSelector = fields.OneTermEqualSelector("spec.signerName", signerName).String()
}

// bundles returns what the cache shows.
func (a *api) bundles() []*certificatesv1beta1.ClusterTrustBundle {
	var bundles []*certificatesv1beta1.ClusterTrustBundle
	for _, obj := range a.informer.GetStore().List() {
		switch bundle := obj.(type) {
		case *certificatesv1beta1.ClusterTrustBundle:
			bundles = append(bundles, bundle)
		case *certificatesv1alpha1.ClusterTrustBundle:
			bundles = append(bundles, toBeta(bundle))
		}
	}
	return bundles
}

// alphaWriter writes in the version v1alpha1.
type alphaWriter struct {
	alphaclient.ClusterTrustBundleInterface
}

// Create creates a bundle.
func (w alphaWriter) Create(ctx context.Context, bundle *certificatesv1beta1.ClusterTrustBundle, options metav1.CreateOptions) (*certificatesv1beta1.ClusterTrustBundle, error) {
	created, err := w.ClusterTrustBundleInterface.Create(ctx, toAlpha(bundle), options)
	return toBeta(created), err
}

// Update updates a bundle.
func (w alphaWriter) Update(ctx context.Context, bundle *certificatesv1beta1.ClusterTrustBundle, options metav1.UpdateOptions) (*certificatesv1beta1.ClusterTrustBundle, error) {
	updated, err := w.ClusterTrustBundleInterface.Update(ctx, toAlpha(bundle), options)
	return toBeta(updated), err
}

func toBeta(bundle *certificatesv1alpha1.ClusterTrustBundle) *certificatesv1beta1.ClusterTrustBundle {
	return &certificatesv1beta1.ClusterTrustBundle{ObjectMeta: bundle.ObjectMeta, Spec: certificatesv1beta1.ClusterTrustBundleSpec(bundle.Spec)}
}

func toAlpha(bundle *certificatesv1beta1.ClusterTrustBundle) *certificatesv1alpha1.ClusterTrustBundle {
	return &certificatesv1alpha1.ClusterTrustBundle{ObjectMeta: bundle.ObjectMeta, Spec: certificatesv1alpha1.ClusterTrustBundleSpec(bundle.Spec)}
}
