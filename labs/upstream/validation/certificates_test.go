package validation

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/certificates/approver"
	"github.com/kcm-book/kcm-book/kcm/controller/certificates/cleaner"
	"github.com/kcm-book/kcm-book/kcm/controller/certificates/signer"
)

// signerNames are those that an authority is there for, and one that is nobody's.
var signerNames = []string{certificatesv1.KubeAPIServerClientSignerName,
	certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName, "example.com/mine"}

// loopsOfCertificates are those that answer requests for certificates, and clear them away.
func (c *cluster) loopsOfCertificates(ctx context.Context, factory informers.SharedInformerFactory) []loop {
	requests, rbac := factory.Certificates().V1().CertificateSigningRequests(), factory.Rbac().V1()
	files, signers := authority(), signer.Signers{}
	for _, name := range signerNames[:3] {
		signers[name] = files
	}
	return []loop{
		approver.New(c, requests, rbac.ClusterRoles(), rbac.ClusterRoleBindings()),
		&withoutFiles{signer.New(ctx, c, requests, signers, 24*time.Hour)},
		cleaner.NewCSRCleanerController(c, requests),
	}
}

// withoutFiles is a signer that watches no files: what waits for the kernel keeps time from passing in a bubble.
type withoutFiles struct{ *signer.Controller }

// Run works until ctx ends.
func (s *withoutFiles) Run(ctx context.Context, workers int) {
	for _, place := range fields(s.Controller) {
		if loop, is := place.(**controller.Loop[cache.ObjectName]); is {
			(*loop).Run(ctx, workers)
		}
	}
}

// authority has no files. Then the authority signs that they have held before.
func authority() *signer.AuthorityFiles {
	files := &signer.AuthorityFiles{}
	for _, place := range fields(files) {
		switch place := place.(type) {
		case **dynamiccertificates.DynamicFileCAContent:
			*place = &dynamiccertificates.DynamicFileCAContent{}
		case **signer.Authority:
			*place = &signer.Authority{Certificate: signingCertificate, Key: signingKey}
		}
	}
	return files
}

// signingCertificate is valid when a bubble begins, and long after.
var signingCertificate = func() *x509.Certificate {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	der := done(x509.CreateCertificate(rand.Reader, template, template, signingKey.Public(), signingKey))
	return done(x509.ParseCertificate(der))
}()

// asked are requests of kubelets, of a person, and of some that ask for more than they may have.
var asked = func() (all [][]byte) {
	node := pkix.Name{CommonName: "system:node:node-0", Organization: []string{"system:nodes"}}
	for _, template := range []*x509.CertificateRequest{
		{Subject: node},
		{Subject: node, DNSNames: []string{"node-0"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}},
		{Subject: pkix.Name{CommonName: "jane", Organization: []string{"dev"}}, EmailAddresses: []string{"jane@example.com"}},
		{Subject: pkix.Name{CommonName: "system:node:node-0", Organization: []string{"system:nodes", "system:masters"}}},
		{},
	} {
		der := done(x509.CreateCertificateRequest(rand.Reader, template, signingKey))
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	}
	return all
}()

// reviewed is the answer to whether a user has a right: each that any binding names has all.
func (c *cluster) reviewed(review *authorizationv1.SubjectAccessReview) *authorizationv1.SubjectAccessReview {
	for _, obj := range c.list(&rbacv1.ClusterRoleBinding{}) {
		for _, subject := range obj.(*rbacv1.ClusterRoleBinding).Subjects {
			review.Status.Allowed = review.Status.Allowed || subject.Name == review.Spec.User
		}
	}
	return review
}

func userName(r *mathrand.Rand) string { return pick(r, "system:node:node-0", "joins", "stranger") }

// someRequest draws what a user asks for. The API server does not take all of it.
func someRequest(r *mathrand.Rand) deed {
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: named(r, fmt.Sprint("request-", r.IntN(4)))}
	csr.Namespace, csr.Finalizers = "", pick(r, nil, nil, nil, []string{"example.com/held"})
	csr.Spec = certificatesv1.CertificateSigningRequestSpec{
		Request: pick(r, asked...), Username: userName(r), SignerName: pick(r, append(signerNames, signerNames[:2]...)...),
		ExpirationSeconds: orNil[int32](r, 1, 600, 86400, math.MaxInt32),
		Usages: pick(r, []certificatesv1.KeyUsage{"digital signature", "client auth"},
			[]certificatesv1.KeyUsage{"client auth", "key encipherment", "digital signature"},
			[]certificatesv1.KeyUsage{"digital signature", "server auth"},
			[]certificatesv1.KeyUsage{"any", "netscape sgc", "crl sign"}, nil),
	}
	return mayGoAgain(r, csr)
}

// answerRequest is what people and other programs answer, or take from the answer.
func answerRequest(r *mathrand.Rand) deed {
	n, subresource := r.IntN(4), pick(r, "approval", "approval", "approval", "status")
	more := several(r, 3, func() certificatesv1.CertificateSigningRequestCondition {
		return certificatesv1.CertificateSigningRequestCondition{
			Type: pick(r, certificatesv1.CertificateApproved, certificatesv1.CertificateApproved,
				certificatesv1.CertificateDenied, certificatesv1.CertificateFailed, "example.com/seen"),
			Status: pick[corev1.ConditionStatus](r, "True", "True", "False"), Reason: pick(r, "", "Mine"),
			LastUpdateTime: moment(r),
		}
	})
	certificate := pick(r, nil, nil, []byte("none"),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signingCertificate.Raw}))
	return deed{fmt.Sprintf("answer request %d at %s: %v, %.30s", n, subresource, more, certificate), func(c *cluster) {
		all := c.list(&certificatesv1.CertificateSigningRequest{})
		if len(all) == 0 {
			return
		}
		csr := all[n%len(all)].(*certificatesv1.CertificateSigningRequest)
		csr.Status.Conditions = append(csr.Status.Conditions, more...)
		if len(certificate) > 0 {
			csr.Status.Certificate = certificate
		}
		c.write(subresource, csr)
	}}
}

// someRight draws a role that may be one of those that the approver goes by, or a binding by which users have rights.
func someRight(r *mathrand.Rand) deed {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "may"}, Rules: several(r, 3, func() rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{pick(r, "", "certificates.k8s.io")},
			Resources: []string{pick(r, "certificatesigningrequests/nodeclient", "pods")},
			Verbs:     []string{pick(r, "create", "*")}}
	})}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("gives-", r.IntN(2))},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "may"}}
	binding.Subjects = several(r, 3, func() rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: userName(r)}
	})
	return pick(r, put(role), mayGoAgain(r, binding), mayGoAgain(r, binding))
}
