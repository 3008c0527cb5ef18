package validation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"

	"github.com/kcm-book/kcm-book/kcm/controller/rootca"
	"github.com/kcm-book/kcm-book/kcm/controller/serviceaccount"
)

// signingKey is one for all runs: it takes long to make one.
var signingKey = done(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))

// loopsOfAccounts are those that give namespaces and pods what they need to talk to the API server.
func (c *cluster) loopsOfAccounts(factory informers.SharedInformerFactory) []loop {
	core, rootCA := factory.Core().V1(), func() []byte { return []byte("root CA") }
	return []loop{
		serviceaccount.NewServiceAccountsController(core.ServiceAccounts(), core.Namespaces(), c,
			serviceaccount.DefaultServiceAccountsControllerOptions()),
		serviceaccount.NewTokensController(core.ServiceAccounts(), core.Secrets(), c, serviceaccount.TokensControllerOptions{
			TokenGenerator: done(serviceaccount.NewTokenGenerator(signingKey)), RootCA: rootCA}),
		rootca.NewPublisher(core.ConfigMaps(), core.Namespaces(), c, rootCA),
	}
}

func someNamespace(r *mathrand.Rand) deed {
	ns := &corev1.Namespace{ObjectMeta: named(r, namespace)}
	ns.Namespace = ""
	return mayGoAgain(r, ns)
}

// someBundle draws a ConfigMap that a user writes where the publisher has its own.
func someBundle(r *mathrand.Rand) deed {
	bundle := &corev1.ConfigMap{ObjectMeta: named(r, pick(r, rootca.ConfigMapName, rootca.ConfigMapName, "other")),
		Immutable: pick(r, nil, nil, nil, new(false), new(true))}
	for range r.IntN(3) {
		key, value := pick(r, "ca.crt", "ca.crt", "x"), pick(r, "", "old", "root CA")
		if r.IntN(3) > 0 {
			bundle.Data = map[string]string{key: value}
		} else {
			bundle.BinaryData = map[string][]byte{key: []byte(value)}
		}
	}
	return mayGoAgain(r, bundle)
}

// someToken draws a Secret for a token, of an account that may be none.
func someToken(r *mathrand.Rand) deed {
	token := &corev1.Secret{ObjectMeta: named(r, fmt.Sprint("token-", r.IntN(3))), Data: map[string][]byte{},
		Type: pick(r, corev1.SecretTypeServiceAccountToken, corev1.SecretTypeServiceAccountToken, corev1.SecretTypeOpaque),
		// What is immutable stays so, and would soon be all that there is.
		Immutable: pick(r, nil, nil, nil, nil, nil, new(true))}
	token.Finalizers = pick(r, nil, nil, nil, []string{"example.com/held"})
	token.Annotations[corev1.ServiceAccountNameKey] = pick(r, "default", "robot", "a/b", "..")
	if r.IntN(3) == 0 {
		token.Annotations[corev1.ServiceAccountUIDKey] = fmt.Sprint("uid-", r.IntN(100))
	}
	for range r.IntN(4) {
		token.Data[pick(r, "ca.crt", "namespace", "token", "extra")] = []byte(pick(r, "", "x", "root CA"))
	}
	return mayGoAgain(r, token)
}

func someAccount(r *mathrand.Rand) deed {
	account := &corev1.ServiceAccount{ObjectMeta: named(r, pick(r, "default", "robot"))}
	account.Finalizers = pick(r, nil, nil, nil, []string{"example.com/held"})
	account.Secrets = several(r, 4, func() corev1.ObjectReference {
		return corev1.ObjectReference{Name: pick(r, "", "token-0", "token-1", "token-2", "a/b"),
			UID: pick[types.UID](r, "", "another")}
	})
	return mayGoAgain(r, account)
}

// mayGoAgain draws that an object is written, or that it goes.
func mayGoAgain(r *mathrand.Rand, obj object) deed {
	goes := deed{fmt.Sprintf("%s goes", obj.GetName()), func(c *cluster) {
		c.remove(resourceOf(obj), obj.GetNamespace(), obj.GetName(), metav1.DeleteOptions{})
	}}
	return pick(r, put(obj), put(obj), goes)
}
