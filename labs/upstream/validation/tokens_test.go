package validation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	"github.com/kcm-book/kcm-book/kcm/controller/bootstrapsigner"
	"github.com/kcm-book/kcm-book/kcm/controller/legacytokencleaner"
	"github.com/kcm-book/kcm-book/kcm/controller/tokencleaner"
)

// loopsOfTokens are those that go by tokens with which machines join, and by tokens that nobody uses.
func (c *cluster) loopsOfTokens(factory informers.SharedInformerFactory) []loop {
	core := factory.Core().V1()
	return []loop{
		bootstrapsigner.New(c, core.Secrets()),
		tokencleaner.New(c, core.Secrets()),
		legacytokencleaner.New(core.ServiceAccounts(), core.Secrets(), core.Pods(), c, time.Nanosecond),
	}
}

// someInfo draws the ConfigMap that is signed. It may have signatures that are none, and may be almost full.
func someInfo(r *rand.Rand) deed {
	info := &corev1.ConfigMap{ObjectMeta: named(r, "cluster-info"), Data: map[string]string{},
		// What is immutable stays so, and would soon be all that there is.
		Immutable: pick(r, nil, nil, nil, nil, nil, nil, nil, new(true))}
	info.Namespace = metav1.NamespacePublic
	for range r.IntN(4) {
		key := pick(r, "kubeconfig", "kubeconfig", "jws-kubeconfig-aaaaaa", "jws-kubeconfig-bbbbbb", "jws-kubeconfig-", "x")
		value := pick(r, "", "the cluster", "the cluster has moved", "a..b")
		if r.IntN(20) == 0 {
			value = strings.Repeat("x", corev1.MaxSecretSize-r.IntN(400))
		}
		if r.IntN(4) > 0 {
			info.Data[key] = value
		} else {
			info.BinaryData = map[string][]byte{key: []byte(value)}
		}
	}
	return short(mayGoAgain(r, info))
}

// short is a deed that is told of in a line of bearable length.
func short(d deed) deed {
	if len(d.what) > 1000 {
		d.what = d.what[:1000] + "…"
	}
	return d
}

// someJoinToken draws a Secret with which a machine may join, or that looks as if.
func someJoinToken(r *rand.Rand) deed {
	name := pick(r, "bootstrap-token-aaaaaa", "bootstrap-token-bbbbbb", "bootstrap-token-A", "join")
	token := &corev1.Secret{ObjectMeta: named(r, name),
		Type: pick(r, corev1.SecretTypeBootstrapToken, corev1.SecretTypeBootstrapToken, corev1.SecretTypeOpaque),
		Data: map[string][]byte{"token-id": []byte(pick(r, "aaaaaa", "bbbbbb"))}}
	token.Data["usage-bootstrap-signing"] = []byte(pick(r, "true", "true", "True"))
	token.Namespace, token.Finalizers = metav1.NamespaceSystem, pick(r, nil, nil, nil, []string{"example.com/held"})
	token.Data["token-secret"] = []byte(pick(r, "", "0123456789abcdef", "fedcba9876543210", "\xff\x00"))
	token.Data["expiration"] = []byte(
		pick(r, "", "", "soon", "1999-12-31T00:00:00Z", "2000-01-01T00:02:00Z", "2000-01-01T02:02:00+02:00"))
	return mayGoAgain(r, token)
}

// A day in these labels is the last on which a token was used, or the first on which it was refused.
const lastUsed, invalidSince = "kubernetes.io/legacy-token-last-used", "kubernetes.io/legacy-token-invalid-since"

// someOldToken draws a Secret for a token of an account, which may list it.
func someOldToken(r *rand.Rand) deed {
	token := &corev1.Secret{ObjectMeta: named(r, fmt.Sprint("token-", r.IntN(3)))}
	token.Type = corev1.SecretTypeServiceAccountToken
	token.Annotations[corev1.ServiceAccountNameKey] = pick(r, "default", "robot")
	token.Finalizers = pick(r, nil, nil, nil, []string{"example.com/held"})
	for range r.IntN(3) {
		label := pick(r, lastUsed, invalidSince, invalidSince)
		token.Labels[label] = pick(r, "", "soon", "1999-01-01", "1999-12-31", "2000-01-01")
	}
	return mayGoAgain(r, token)
}

// someTracking draws what the API servers say about since when they note the use of tokens.
func someTracking(r *rand.Rand) deed {
	since := &corev1.ConfigMap{
		Data: map[string]string{"since": pick(r, "1999-01-01", "1999-12-30", "1999-12-31", "2000-01-01", "soon")},
	}
	since.Namespace, since.Name = metav1.NamespaceSystem, "kube-apiserver-legacy-service-account-token-tracking"
	return mayGoAgain(r, since)
}

// holdingPod draws a pod that names a token.
func holdingPod(r *rand.Rand) deed {
	pod := &corev1.Pod{ObjectMeta: named(r, fmt.Sprint("holds-", r.IntN(2))), Spec: template("other", "web:v1").Spec}
	pod.Spec.ImagePullSecrets = several(r, 3, func() corev1.LocalObjectReference {
		return corev1.LocalObjectReference{Name: fmt.Sprint("token-", r.IntN(3))}
	})
	return mayGoAgain(r, pod)
}
