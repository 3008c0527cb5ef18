// Package signer stands for k8s.io/kubernetes/pkg/controller/certificates/signer.
package signer

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesinformers "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/kcm/controller/certificates/signer"
)

// NewKubeAPIServerClientCSRSigningController returns kcm's loop, with an authority for one of its four signers.
// Upstream has a loop for each.
func NewKubeAPIServerClientCSRSigningController(
	ctx context.Context,
	client kubernetes.Interface,
	requests certificatesinformers.CertificateSigningRequestInformer,
	certFile, keyFile string,
	longest time.Duration,
) (*signer.Controller, error) {
	files, err := signer.NewAuthorityFiles(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	signers := signer.Signers{certificatesv1.KubeAPIServerClientSignerName: files}
	return signer.New(ctx, client, requests, signers, longest), nil
}
