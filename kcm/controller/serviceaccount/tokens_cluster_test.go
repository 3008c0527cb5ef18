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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jose "gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/client-go/util/retry"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

func createAccount(t *testing.T, client kubernetes.Interface, namespace, name string) *corev1.ServiceAccount {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	account, err := client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{})
	require.NoError(t, err)
	return account
}

// createToken asks for a token of an account, with more annotations if there
// are any.
func createToken(t *testing.T, client kubernetes.Interface, namespace, account, name string, annotations map[string]string) {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
	maps.Copy(secret.Annotations, annotations)
	_, err := client.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)
}

// waitForSecret waits until a Secret is as it should be, and returns it.
func waitForSecret(t *testing.T, client kubernetes.Interface, namespace, name, what string, is func(*corev1.Secret) bool) *corev1.Secret {
	t.Helper()
	var secret *corev1.Secret
	clustertest.Eventually(t, fmt.Sprintf("secret %s %s", name, what), func(ctx context.Context) (bool, string, error) {
		var err error
		secret, err = client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return is(secret), fmt.Sprintf("annotations %v, data %v", secret.Annotations, slices.Sorted(maps.Keys(secret.Data))), nil
	})
	return secret
}

func waitForToken(t *testing.T, client kubernetes.Interface, namespace, name string) *corev1.Secret {
	t.Helper()
	return waitForSecret(t, client, namespace, name, "has a token", func(secret *corev1.Secret) bool {
		return len(secret.Data["token"]) > 0
	})
}

func waitForDeletion(t *testing.T, client kubernetes.Interface, namespace, name string) {
	t.Helper()
	clustertest.Eventually(t, fmt.Sprintf("secret %s is deleted", name), func(ctx context.Context) (bool, string, error) {
		_, err := client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		return false, "it is there", err
	})
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
func whoIs(t *testing.T, on cluster.Cluster, secret *corev1.Secret) authenticationv1.UserInfo {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host:            on.Server(),
		BearerToken:     string(secret.Data["token"]),
		TLSClientConfig: rest.TLSClientConfig{CAData: secret.Data["ca.crt"]},
	})
	require.NoError(t, err)
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return review.Status.UserInfo
}

func TestATokenSecretIsFilledAndItsBearerIsTheServiceAccount(t *testing.T) {
	t.Parallel()
	client := clustertest.Client(t)
	namespace := clustertest.BareNamespace(t)
	account := createAccount(t, client, namespace, "builder")
	createToken(t, client, namespace, "builder", "token", nil)

	secret := waitForToken(t, client, namespace, "token")
	rootCA, err := os.ReadFile(clustertest.Cluster().RootCAFile())
	require.NoError(t, err)
	assert.Equal(t, string(rootCA), string(secret.Data["ca.crt"]))
	assert.Equal(t, namespace, string(secret.Data["namespace"]))
	assert.Equal(t, map[string]string{
		"kubernetes.io/service-account.name": "builder",
		"kubernetes.io/service-account.uid":  string(account.UID),
	}, secret.Annotations)

	user := whoIs(t, clustertest.Cluster(), secret)
	assert.Equal(t, "system:serviceaccount:"+namespace+":builder", user.Username)
	assert.Equal(t, string(account.UID), user.UID)
	assert.Contains(t, user.Groups, "system:serviceaccounts:"+namespace)
}

func TestAnEmptiedTokenIsSignedAnew(t *testing.T) {
	t.Parallel()
	client := clustertest.Client(t)
	namespace := clustertest.BareNamespace(t)
	createAccount(t, client, namespace, "builder")
	createToken(t, client, namespace, "builder", "token", nil)
	waitForToken(t, client, namespace, "token")
	updateSecret(t, client, namespace, "token", func(secret *corev1.Secret) { delete(secret.Data, "token") })
	secret := waitForToken(t, client, namespace, "token")
	assert.Equal(t, "system:serviceaccount:"+namespace+":builder", whoIs(t, clustertest.Cluster(), secret).Username)
}

func TestTheRootCAIsPutRightAndTheRestIsKept(t *testing.T) {
	t.Parallel()
	client := clustertest.Client(t)
	namespace := clustertest.BareNamespace(t)
	createAccount(t, client, namespace, "builder")
	createToken(t, client, namespace, "builder", "token", nil)
	before := waitForToken(t, client, namespace, "token")
	updateSecret(t, client, namespace, "token", func(secret *corev1.Secret) {
		secret.Data["ca.crt"] = []byte("another")
		secret.Data["namespace"] = []byte("another")
		secret.Data["extra"] = []byte("extra")
	})
	after := waitForSecret(t, client, namespace, "token", "has its root CA again", func(secret *corev1.Secret) bool {
		return string(secret.Data["ca.crt"]) == string(before.Data["ca.crt"])
	})
	assert.Equal(t, string(before.Data["token"]), string(after.Data["token"]))
	assert.Equal(t, "another", string(after.Data["namespace"]), "a namespace that is there is not corrected")
	assert.Equal(t, "extra", string(after.Data["extra"]))
}

func TestTheTokensOfADeletedServiceAccountAreDeleted(t *testing.T) {
	t.Parallel()
	client := clustertest.Client(t)
	namespace := clustertest.BareNamespace(t)
	createAccount(t, client, namespace, "builder")
	createAccount(t, client, namespace, "tester")
	createToken(t, client, namespace, "builder", "first", nil)
	createToken(t, client, namespace, "builder", "second", nil)
	createToken(t, client, namespace, "tester", "other", nil)
	for _, name := range []string{"first", "second", "other"} {
		waitForToken(t, client, namespace, name)
	}
	require.NoError(t, client.CoreV1().ServiceAccounts(namespace).Delete(t.Context(), "builder", metav1.DeleteOptions{}))
	waitForDeletion(t, client, namespace, "first")
	waitForDeletion(t, client, namespace, "second")
	_, err := client.CoreV1().Secrets(namespace).Get(t.Context(), "other", metav1.GetOptions{})
	assert.NoError(t, err)
}

func TestAServiceAccountDoesNotInheritTokensOfItsName(t *testing.T) {
	t.Parallel()
	client := clustertest.Client(t)
	namespace := clustertest.BareNamespace(t)
	createAccount(t, client, namespace, "builder")
	createToken(t, client, namespace, "builder", "former", nil)
	waitForToken(t, client, namespace, "former")
	require.NoError(t, client.CoreV1().ServiceAccounts(namespace).Delete(t.Context(), "builder", metav1.DeleteOptions{}))
	account := createAccount(t, client, namespace, "builder")
	waitForDeletion(t, client, namespace, "former")

	createToken(t, client, namespace, "builder", "current", nil)
	secret := waitForToken(t, client, namespace, "current")
	assert.Equal(t, string(account.UID), whoIs(t, clustertest.Cluster(), secret).UID)
}

func TestATokenSecretOfNobodyIsDeleted(t *testing.T) {
	t.Parallel()
	client := clustertest.Client(t)
	namespace := clustertest.BareNamespace(t)
	createAccount(t, client, namespace, "builder")

	createToken(t, client, namespace, "nobody", "without-account", nil)
	waitForDeletion(t, client, namespace, "without-account")

	createToken(t, client, namespace, "builder", "of-another", map[string]string{corev1.ServiceAccountUIDKey: "another-uid"})
	waitForDeletion(t, client, namespace, "of-another")
}

func TestADeletedTokenSecretIsTakenOutOfTheServiceAccountsList(t *testing.T) {
	t.Parallel()
	client := clustertest.Client(t)
	namespace := clustertest.BareNamespace(t)
	account := createAccount(t, client, namespace, "builder")
	createToken(t, client, namespace, "builder", "token", nil)
	waitForToken(t, client, namespace, "token")
	account.Secrets = []corev1.ObjectReference{{Name: "first"}, {Name: "token"}, {Name: "last"}}
	_, err := client.CoreV1().ServiceAccounts(namespace).Update(t.Context(), account, metav1.UpdateOptions{})
	require.NoError(t, err)

	require.NoError(t, client.CoreV1().Secrets(namespace).Delete(t.Context(), "token", metav1.DeleteOptions{}))
	clustertest.Eventually(t, "the account does not list the secret", func(ctx context.Context) (bool, string, error) {
		account, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "builder", metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		want := []corev1.ObjectReference{{Name: "first"}, {Name: "last"}}
		return slices.Equal(want, account.Secrets), fmt.Sprintf("%v", account.Secrets), nil
	})
}

// runTokens runs the token loop with one signing key until stop is called.
func runTokens(t *testing.T, on cluster.Cluster, keyFile string) (stop func()) {
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
	factory := informers.NewSharedInformerFactory(client, 0)
	run, err := startTokens(ctx, client, factory, on, keyFile)
	require.NoError(t, err)
	factory.Start(ctx.Done())
	running.Go(func() {
		run(ctx)
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
func trustRSAKey(t *testing.T, ctx context.Context, on cluster.Cluster) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	require.NoError(t, err)
	keyFile := filepath.Join(t.TempDir(), "rsa.key")
	require.NoError(t, keyutil.WriteKey(keyFile, private))

	der, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	trusted := strings.TrimSuffix(on.NextServiceAccountKeyFile(), ".key") + ".pub"
	content, err := os.ReadFile(trusted)
	require.NoError(t, err)
	content = append(content, pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der})...)
	require.NoError(t, os.WriteFile(trusted, content, 0o600))
	require.NoError(t, on.Restart(ctx, cluster.APIServer))
	return keyFile
}

func TestANewSigningKeyIsForNewTokensAndTheOldOnesStay(t *testing.T) {
	t.Parallel()
	// A cluster of its own: the loop of the others signs with one key.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	on, err := cluster.Start(ctx, cluster.WithNodes(1))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, on.Close()) })
	rsaKeyFile := trustRSAKey(t, ctx, on)
	client, err := kubernetes.NewForConfig(on.RESTConfig(cluster.Admin))
	require.NoError(t, err)
	const namespace = "default"
	createAccount(t, client, namespace, "builder")

	stop := runTokens(t, on, on.ServiceAccountKeyFile())
	createToken(t, client, namespace, "builder", "old", nil)
	createToken(t, client, namespace, "builder", "emptied", nil)
	old, emptied := waitForToken(t, client, namespace, "old"), waitForToken(t, client, namespace, "emptied")
	stop()

	runTokens(t, on, rsaKeyFile)
	createToken(t, client, namespace, "builder", "new", nil)
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
