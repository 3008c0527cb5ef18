package serviceaccount_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jose "gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/client-go/util/retry"

	"github.com/kcm-book/kcm-book/kcm/controller"
	"github.com/kcm-book/kcm-book/kcm/controller/serviceaccount"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

func createAccount(t *testing.T, client kubernetes.Interface, namespace, name string) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{})
	require.NoError(t, err)
}

// createToken asks for a token of an account.
func createToken(t *testing.T, client kubernetes.Interface, namespace, account, name string) {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
	_, err := client.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)
}

// waitForToken waits until a Secret has a token, and returns it.
func waitForToken(t *testing.T, client kubernetes.Interface, namespace, name string) *corev1.Secret {
	t.Helper()
	var secret *corev1.Secret
	clustertest.Eventually(t, fmt.Sprintf("secret %s has a token", name), func(ctx context.Context) (err error) {
		secret, err = client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(secret.Data["token"]) == 0 {
			err = fmt.Errorf("annotations %v, data %v", secret.Annotations, slices.Sorted(maps.Keys(secret.Data)))
		}
		return err
	})
	return secret
}

// updateSecret changes a Secret that the loop may be changing too.
func updateSecret(t *testing.T, client kubernetes.Interface, namespace, name string, change func(*corev1.Secret)) {
	t.Helper()
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		secret, err := client.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(secret)
		_, err = client.CoreV1().Secrets(namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
		return err
	}))
}

// whoIs asks the API server who the bearer of the token in secret is, the way
// a pod does: it trusts the CA that lies next to the token.
func whoIs(t *testing.T, on *cluster.Cluster, secret *corev1.Secret) authenticationv1.UserInfo {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host:            on.Server,
		BearerToken:     string(secret.Data["token"]),
		TLSClientConfig: rest.TLSClientConfig{CAData: secret.Data["ca.crt"]},
	})
	require.NoError(t, err)
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return review.Status.UserInfo
}

// runTokens runs the token loop with one signing key until stop is called.
func runTokens(t *testing.T, on *cluster.Cluster, keyFile string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	if clustertest.Reference() {
		cmd := on.Reference(ctx, "--leader-elect=false", "--controllers=serviceaccount-token-controller", "--service-account-private-key-file="+keyFile)
		require.NoError(t, cmd.Start())
		running.Go(func() { _ = cmd.Wait() }) // ends with the signal's status
		return stop
	}
	client, err := kubernetes.NewForConfig(on.RESTConfig(cluster.Admin))
	require.NoError(t, err)
	key, err := keyutil.PrivateKeyFromFile(keyFile)
	require.NoError(t, err)
	generator, err := serviceaccount.NewTokenGenerator(key)
	require.NoError(t, err)
	rootCA, err := os.ReadFile(on.RootCA)
	require.NoError(t, err)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim(serviceaccount.Reads...)))
	loop := serviceaccount.NewTokensController(factory.Core().V1().ServiceAccounts(), factory.Core().V1().Secrets(), client,
		serviceaccount.TokensControllerOptions{TokenGenerator: generator, RootCA: func() []byte { return rootCA }})
	factory.Start(ctx.Done())
	running.Go(func() {
		loop.Run(ctx, 2)
		factory.Shutdown()
	})
	return stop
}

func headerOf(t *testing.T, secret *corev1.Secret) jose.Header {
	t.Helper()
	token, err := jwt.ParseSigned(string(secret.Data["token"]))
	require.NoError(t, err)
	return token.Headers[0]
}

// trustRSAKey makes an RSA key, has the API server trust it besides its own,
// and returns the file of the private key.
func trustRSAKey(t *testing.T, on *cluster.Cluster) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	require.NoError(t, err)
	keyFile := filepath.Join(t.TempDir(), "rsa.key")
	require.NoError(t, keyutil.WriteKey(keyFile, private))

	der, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	trusted := strings.TrimSuffix(on.NextServiceAccountKey, ".key") + ".pub"
	content, err := os.ReadFile(trusted)
	require.NoError(t, err)
	content = append(content, pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der})...)
	require.NoError(t, os.WriteFile(trusted, content, 0o600))
	require.NoError(t, on.Disturb(t.Context(), "restart", cluster.APIServer))
	return keyFile
}

func TestANewSigningKeyIsForNewTokensAndTheOldOnesStay(t *testing.T) {
	on := clustertest.Cluster(t)
	rsaKeyFile := trustRSAKey(t, on)
	client := clustertest.Client(t)
	const namespace = "default"
	createAccount(t, client, namespace, "builder")

	stop := runTokens(t, on, on.ServiceAccountKey)
	createToken(t, client, namespace, "builder", "old")
	createToken(t, client, namespace, "builder", "emptied")
	old, emptied := waitForToken(t, client, namespace, "old"), waitForToken(t, client, namespace, "emptied")
	stop()

	runTokens(t, on, rsaKeyFile)
	createToken(t, client, namespace, "builder", "new")
	updateSecret(t, client, namespace, "emptied", func(secret *corev1.Secret) { delete(secret.Data, "token") })
	created, refilled := waitForToken(t, client, namespace, "new"), waitForToken(t, client, namespace, "emptied")
	kept := waitForToken(t, client, namespace, "old")

	assert.Equal(t, string(old.Data["token"]), string(kept.Data["token"]))
	assert.Equal(t, "ES256", headerOf(t, old).Algorithm)
	assert.Equal(t, headerOf(t, old).KeyID, headerOf(t, emptied).KeyID)
	assert.Equal(t, "RS256", headerOf(t, created).Algorithm)
	assert.NotEqual(t, headerOf(t, old).KeyID, headerOf(t, created).KeyID)
	assert.Equal(t, headerOf(t, created).KeyID, headerOf(t, refilled).KeyID)
	for _, secret := range []*corev1.Secret{kept, created, refilled} {
		assert.Equal(t, "system:serviceaccount:default:builder", whoIs(t, on, secret).Username, "bearer of %s", secret.Name)
	}
}
