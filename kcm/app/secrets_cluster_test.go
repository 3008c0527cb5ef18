package app_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

// At -v=8 client-go logs the bodies of requests and answers, and in these are a
// Secret with a token, the tokens of the loops, and that of who looks at /configz.
// Two loops more have a secret to keep: the key of the CA, and that of a bootstrap
// token.
func TestNoKeyAndNoTokenIsInTheLogAtAnyVerbosity(t *testing.T) {
	t.Parallel()
	c, client := clustertest.Cluster(t), clustertest.Client(t)
	caKey := filepath.Join(c.Dir, "pki", "ca.key")
	r := start(t, "secrets", "-v=10", "--vmodule=request=10,round_trippers=10", "--use-service-account-credentials",
		"--controllers=serviceaccount-controller,serviceaccount-token-controller,bootstrap-signer-controller,certificatesigningrequest-signing-controller",
		"--service-account-private-key-file="+c.ServiceAccountKey, "--cluster-signing-cert-file="+c.RootCA, "--cluster-signing-key-file="+caKey)
	r.waitUntilLeading(t)
	for v, want := range map[string]int{"10": http.StatusBadRequest, "7": http.StatusOK} {
		clustertest.Eventually(t, "-v="+v+" is answered while it runs", func(context.Context) error { // it learns by whom to know the admin when it has started
			code, answer, err := r.ask(t, http.MethodPut, "/debug/flags/v", strings.NewReader(v))
			if err == nil && code != want {
				err = fmt.Errorf("%d, not %d: %s", code, want, answer)
			}
			return err
		})
	}

	namespace := "secrets"
	_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	var token string
	clustertest.Eventually(t, "a Secret for the default account has a token", func(ctx context.Context) error {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}
		_, _ = client.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{}) // it may be there
		secret, err := client.CoreV1().Secrets(namespace).Get(ctx, "token", metav1.GetOptions{})
		if err == nil && len(secret.Data["token"]) == 0 {
			err = errors.New("it has none")
		}
		if err == nil {
			token = string(secret.Data["token"])
		}
		return err
	})

	const bootstrap = "a0b1c2d3e4f5g6h7"
	signsWith(t, client, bootstrap)
	isSigned(t, client)

	log := r.Log.String()
	require.Contains(t, log, `"Response"`, "requests are logged, at 6")
	secrets := []string{token, base64.StdEncoding.EncodeToString([]byte(token)), hex.Dump([]byte(token))[10:58],
		bootstrap, base64.StdEncoding.EncodeToString([]byte(bootstrap))}
	for _, file := range []string{c.ServiceAccountKey, caKey} {
		key, err := os.ReadFile(file)
		require.NoError(t, err)
		words := strings.Fields(string(key)) // the first four and the last four are the lines around the key
		secrets = append(secrets, words[4:len(words)-4]...)
	}
	for _, secret := range secrets {
		assert.NotContains(t, log, secret)
	}
	for _, token := range []string{"eyJhbGciOi", "65 79 4a 68 62 47 63"} { // as every JSON Web Token begins, and in hexadecimal
		assert.NotContains(t, log, token)
	}
	assert.NotContains(t, log, "Body")
	events, err := client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, event := range events.Items {
		assert.NotContains(t, event.Message, token)
	}
}

// signsWith creates a bootstrap token with this secret, and waits until a loop has signed with it.
func signsWith(t *testing.T, client kubernetes.Interface, secret string) {
	t.Helper()
	_, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: bootstrapapi.BootstrapTokenSecretPrefix + "secret"},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		StringData: map[string]string{bootstrapapi.BootstrapTokenIDKey: "secret", bootstrapapi.BootstrapTokenSecretKey: secret,
			bootstrapapi.BootstrapTokenUsageSigningKey: "true"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	infos := client.CoreV1().ConfigMaps(metav1.NamespacePublic)
	_, err = infos.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: bootstrapapi.ConfigMapClusterInfo}, Data: map[string]string{bootstrapapi.KubeConfigKey: "text"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	clustertest.Eventually(t, "cluster-info is signed with the token", func(ctx context.Context) error {
		info, err := infos.Get(ctx, bootstrapapi.ConfigMapClusterInfo, metav1.GetOptions{})
		if err == nil && info.Data[bootstrapapi.JWSSignatureKeyPrefix+"secret"] == "" {
			err = fmt.Errorf("%v", info.Data)
		}
		return err
	})
}

// isSigned asks for a certificate, approves that, and waits until a loop has signed it.
func isSigned(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}}, key)
	require.NoError(t, err)
	csrs := client.CertificatesV1().CertificateSigningRequests()
	csr, err := csrs.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "secrets"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
		{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Tested"},
	}
	_, err = csrs.UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{})
	require.NoError(t, err)
	clustertest.Eventually(t, "the request is signed", func(ctx context.Context) error {
		csr, err := csrs.Get(ctx, "secrets", metav1.GetOptions{})
		if err == nil && len(csr.Status.Certificate) == 0 {
			err = fmt.Errorf("%v", csr.Status.Conditions)
		}
		return err
	})
}
