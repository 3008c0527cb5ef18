package cleaner

import (
	"context"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certificatesinformers "k8s.io/client-go/informers/certificates/v1beta1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/featuregate"
)

// PodCertificateRequest is the feature gate of the kind (https://kep.k8s.io/4317).
const PodCertificateRequest featuregate.Feature = "PodCertificateRequest"

// podRequestStays is for how long a PodCertificateRequest stays, answered or not. The
// kubelet that has made it has taken the certificate long before, or makes another one.
const podRequestStays = 15 * time.Minute

// NewPCRCleanerController returns a controller that deletes PodCertificateRequests 15
// minutes after they were created. It reads the informer, which the caller starts, and
// deletes through client.
func NewPCRCleanerController(
	client kubernetes.Interface, pcrInformer certificatesinformers.PodCertificateRequestInformer,
) *Controller[*certificatesv1beta1.PodCertificateRequest] {
	cached, requests := pcrInformer.Lister(), client.CertificatesV1beta1()
	c := &Controller[*certificatesv1beta1.PodCertificateRequest]{
		cached: func(key cache.ObjectName) (*certificatesv1beta1.PodCertificateRequest, error) {
			return cached.PodCertificateRequests(key.Namespace).Get(key.Name)
		},
		endOf: endOfPCR,
		remove: func(ctx context.Context, key cache.ObjectName, options metav1.DeleteOptions) error {
			return requests.PodCertificateRequests(key.Namespace).Delete(ctx, key.Name, options)
		},
	}
	return c.watch(pcrInformer.Informer(), "podcertificaterequest-cleaner-controller", "pod_certificate_request_cleaner")
}

func endOfPCR(pcr *certificatesv1beta1.PodCertificateRequest) (end, bool) {
	return end{pcr.CreationTimestamp.Add(podRequestStays), "it was created more than 15 minutes ago"}, true
}
