package serviceaccount

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

var rootCA = []byte("root CA")

func builder(uid types.UID, secrets ...string) *corev1.ServiceAccount {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "builder", UID: uid, ResourceVersion: "7",
	}}
	for _, name := range secrets {
		account.Secrets = append(account.Secrets, corev1.ObjectReference{Name: name})
	}
	return account
}

// tokenSecret is a Secret for the account called builder. An empty uid leaves
// the annotation out.
func tokenSecret(uid string, data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "builder-token", UID: "secret-uid", ResourceVersion: "7",
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "builder"},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	if uid != "" {
		secret.Annotations[corev1.ServiceAccountUIDKey] = uid
	}
	for key, value := range data {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = []byte(value)
	}
	return secret
}

func keyOf(secret *corev1.Secret) secretKey {
	return secretKey{cache.MetaObjectToName(secret), secret.UID, accountOf(secret)}
}

// controllerOn returns a controller whose caches hold the cached objects and
// whose API server holds the live ones. It has no queues.
func controllerOn(t *testing.T, cached, live []runtime.Object) (*TokensController, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(live...)
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	accounts := cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace)
	secrets := cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace)
	for _, obj := range cached {
		switch obj := obj.(type) {
		case *corev1.ServiceAccount:
			require.NoError(t, accounts.Add(obj))
		case *corev1.Secret:
			require.NoError(t, secrets.Add(obj))
		}
	}
	return &TokensController{
		client:        client,
		tokens:        generator(t),
		rootCA:        func() []byte { return rootCA },
		accountLister: corelisters.NewServiceAccountLister(accounts),
		secretLister:  corelisters.NewSecretLister(secrets),
	}, client
}

func generator(t *testing.T) TokenGenerator {
	t.Helper()
	g, err := NewTokenGenerator(ecdsaKey(t, elliptic.P256()))
	require.NoError(t, err)
	return g
}

func ecdsaKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	require.NoError(t, err)
	return key
}

// contents says what a Secret holds, in words.
func contents(secret *corev1.Secret) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		parts = append(parts, fmt.Sprintf("%s %q", key, secret.Data[key]))
	}
	return fmt.Sprintf("%s, of %s with UID %q", strings.Join(parts, ", "),
		secret.Annotations[corev1.ServiceAccountNameKey], secret.Annotations[corev1.ServiceAccountUIDKey])
}

// inWords says what a plan is to do.
func (p secretPlan) inWords() string {
	var steps []string
	if p.delete != nil {
		steps = append(steps, "delete the Secret "+p.delete.Name)
	}
	if p.update != nil {
		steps = append(steps, "write "+contents(p.update))
	}
	if p.sign != nil {
		steps = append(steps, fmt.Sprintf("sign a token for %s with UID %q", p.sign.Name, p.sign.UID))
	}
	if p.unlink != nil {
		steps = append(steps, fmt.Sprintf("leave %v in the list of %s", listed(p.unlink), p.unlink.Name))
	}
	if steps == nil {
		return "nothing is written"
	}
	return strings.Join(steps, "; ")
}

// inWords says what was observed.
func (seen observedSecret) inWords() string {
	secret, account := "Secret gone", "account gone"
	if seen.secret != nil {
		secret = "Secret there"
	}
	if seen.account != nil {
		account = fmt.Sprintf("account %s with the list %v", seen.account.UID, listed(seen.account))
	}
	return secret + ", " + account
}

// listed are the Secrets in the list of an account.
func listed(account *corev1.ServiceAccount) []string {
	names := []string{}
	for _, ref := range account.Secrets {
		names = append(names, ref.Name)
	}
	return names
}
