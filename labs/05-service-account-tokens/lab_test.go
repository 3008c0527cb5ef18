// Package tokens_test is the lab of chapter 05: tokens in Secrets, a bundle of
// certificates in every namespace, and a name of its own for every loop.
package tokens_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
	"github.com/kcm-book/kcm-book/labs/lab"
)

func TestMain(m *testing.M) { lab.Main(m) }

const (
	manager   = "system:kube-controller-manager"
	publisher = "system:serviceaccount:kube-system:root-ca-cert-publisher"
	accounts  = "system:serviceaccount:kube-system:service-account-controller"
)

// alone is for a manager without a rival. Elections are chapter 03's.
const alone = "--leader-elect=false"

func TestServiceAccountTokens(t *testing.T) {
	l := lab.New(t, 5)
	rootCA, err := os.ReadFile(l.Cluster.RootCAFile())
	require.NoError(t, err)
	begin := time.Now() // on kind another manager has run before
	var kcm *lab.Process
	var recording *history.Recording

	// awaitSecret waits until a Secret of the shop is as it is wanted.
	awaitSecret := func(s *lab.Step, name, what string, wanted func(*corev1.Secret) bool) (secret *corev1.Secret) {
		s.Helper()
		s.Await(name+" "+what, func(ctx context.Context) (ok bool, seen string, err error) {
			secret, err = l.Client.CoreV1().Secrets("shop").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return wanted(secret), fmt.Sprint("it has ", slices.Sorted(maps.Keys(secret.Data))), nil
		})
		return secret
	}
	filled := func(secret *corev1.Secret) bool { return token(secret) != "" }
	awaitGone := func(s *lab.Step, name string) {
		s.Helper()
		s.Await(name+" is gone", func(ctx context.Context) (bool, string, error) {
			_, err := l.Client.CoreV1().Secrets("shop").Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), fmt.Sprint(err), nil
		})
	}
	// bearer returns who the API server takes the bearer of a token for.
	bearer := func(s *lab.Step, token string) string {
		s.Helper()
		review, err := l.Client.AuthenticationV1().TokenReviews().Create(s.Context(),
			&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
		require.NoError(s, err)
		return review.Status.User.Username
	}
	// awaitBundles waits until each namespace has its account and the cluster's bundle.
	awaitBundles := func(s *lab.Step) {
		s.Helper()
		s.Await("every namespace has its account and the cluster's certificates", func(ctx context.Context) (bool, string, error) {
			namespaces, err := l.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, "", err
			}
			for _, namespace := range namespaces.Items {
				bundle, err := l.Client.CoreV1().ConfigMaps(namespace.Name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
				if err != nil {
					return false, "", err
				}
				if !maps.Equal(bundle.Data, map[string]string{"ca.crt": string(rootCA)}) {
					return false, fmt.Sprintf("that of %s has %v", namespace.Name, slices.Sorted(maps.Keys(bundle.Data))), nil
				}
				if _, err := l.Client.CoreV1().ServiceAccounts(namespace.Name).Get(ctx, "default", metav1.GetOptions{}); err != nil {
					return false, "", err
				}
			}
			return true, fmt.Sprintf("%d namespaces", len(namespaces.Items)), nil
		})
	}
	// requests returns those of the lab's managers and their loops.
	requests := func(s *lab.Step, keep func(cluster.AuditEvent) bool) []cluster.AuditEvent {
		s.Helper()
		events, err := l.Cluster.AuditEvents(func(e cluster.AuditEvent) bool {
			return e.Time.After(begin) && (e.User == manager || e.User == publisher || e.User == accounts) && keep(e)
		})
		require.NoError(s, err)
		return events
	}

	l.Step("A token Secret is filled for its account", func(s *lab.Step) {
		kcm = s.Start("kcm")
		s.Kubectl("create namespace shop")
		recording, err = history.Record(s.Context(), l.Dynamic, "shop",
			corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("serviceaccounts"))
		require.NoError(s, err)
		s.Kubectl("create serviceaccount builder -n shop")
		s.Kubectl("create -n shop -f manifests/token.yaml")
		secret := awaitSecret(s, "builder-token", "has a token", filled)
		assert.Equal(s, "shop", string(secret.Data["namespace"]))
		assert.Equal(s, string(rootCA), string(secret.Data["ca.crt"]))
		account, err := l.Client.CoreV1().ServiceAccounts("shop").Get(s.Context(), "builder", metav1.GetOptions{})
		require.NoError(s, err)
		s.Say("The token says %s", part(s, token(secret), 1))
		assert.Equal(s, claims{
			Issuer: "kubernetes/serviceaccount", Subject: "system:serviceaccount:shop:builder", Namespace: "shop",
			Secret: "builder-token", Account: "builder", AccountUID: account.UID,
		}, claimsOf(s, token(secret)), "no expiry and no audience")
		assert.Empty(s, account.Secrets, "since 1.24 the account does not list them")
	})

	l.Step("What is wrong in it is mended, and a token that is there stays", func(s *lab.Step) {
		before := awaitSecret(s, "builder-token", "has a token", filled)
		s.Kubectl(`patch -n shop secret builder-token --type=merge -p '{"data":{"ca.crt":"b3RoZXI="}}'`)
		after := awaitSecret(s, "builder-token", "has the cluster's certificates again", func(secret *corev1.Secret) bool {
			return string(secret.Data["ca.crt"]) == string(rootCA)
		})
		assert.Equal(s, token(before), token(after))

		s.Kubectl(`patch -n shop secret builder-token --type=merge -p '{"data":{"token":null}}'`)
		after = awaitSecret(s, "builder-token", "has a token again", filled)
		if headerOf(s, token(after)).Algorithm == "RS256" {
			s.Say("The key is RSA: what is signed twice is the same twice. Whoever has the old token has the new one.")
			assert.Equal(s, token(before), token(after))
			return
		}
		assert.NotEqual(s, token(before), token(after))
		now, then := bearer(s, token(after)), bearer(s, token(before))
		s.Say("The bearer of the new one is %s, and the bearer of the old one is nobody: %q.", now, then)
		assert.Equal(s, "system:serviceaccount:shop:builder", now)
		assert.Empty(s, then, "it is not the one in the Secret")
	})

	l.Step("A Secret goes with its account, and another account of the name does not inherit it", func(s *lab.Step) {
		s.Kubectl("create -n shop -f manifests/nobody.yaml")
		awaitGone(s, "nobody-token")
		former := claimsOf(s, token(awaitSecret(s, "builder-token", "has a token", filled)))
		s.Kubectl("delete serviceaccount builder -n shop")
		s.Kubectl("create serviceaccount builder -n shop")
		awaitGone(s, "builder-token")
		s.Kubectl("create -n shop -f manifests/token.yaml")
		now := claimsOf(s, token(awaitSecret(s, "builder-token", "has a token", filled)))
		s.Say("The new one is for the account %s, and the old one was for %s.", now.AccountUID, former.AccountUID)
		assert.NotEqual(s, former.AccountUID, now.AccountUID)
	})

	l.Step("Every namespace has the cluster's certificates, whatever is done to them", func(s *lab.Step) {
		s.Kubectl("create namespace later")
		awaitBundles(s)
		s.Kubectl("get configmaps -A --field-selector=metadata.name=kube-root-ca.crt")
		s.Kubectl(`patch -n shop configmap kube-root-ca.crt --type=merge -p '{"data":{"ca.crt":null,"more.crt":"mine"}}'`)
		awaitBundles(s)
		s.Kubectl("delete -n shop configmap kube-root-ca.crt")
		awaitBundles(s)
	})

	l.Step("The audit log names each loop by its own name", func(s *lab.Step) {
		wanted := map[string]sets.Set[string]{
			manager:   sets.New("update secrets", "delete secrets"),
			publisher: sets.New("create configmaps", "update configmaps"),
			accounts:  sets.New("create serviceaccounts"),
		}
		did := map[string]sets.Set[string]{}
		s.Await("all that was done is in the log, and nothing else", func(context.Context) (bool, string, error) {
			clear(did)
			for _, e := range requests(s, func(e cluster.AuditEvent) bool {
				return e.Namespace == "shop" && e.Code < 300 && e.Verb != "get" && e.Verb != "list"
			}) {
				if did[e.User] == nil {
					did[e.User] = sets.New[string]()
				}
				did[e.User].Insert(e.Verb + " " + e.Resource)
			}
			return reflect.DeepEqual(wanted, did), fmt.Sprint(did), nil
		})
		for _, user := range slices.Sorted(maps.Keys(did)) {
			s.Say("%-67s %s", user, strings.Join(sets.List(did[user]), ", "))
		}
		requested := sets.New[string]()
		for _, e := range requests(s, func(e cluster.AuditEvent) bool { return e.Subresource == "token" }) {
			assert.Equal(s, manager, e.User)
			requested.Insert(e.Name)
		}
		s.Say("%s has asked for the tokens of %s", manager, strings.Join(sets.List(requested), " and "))
		assert.Equal(s, sets.New("root-ca-cert-publisher", "service-account-controller"), requested)
		assert.Empty(s, requests(s, func(e cluster.AuditEvent) bool { return e.Code == 403 }), "each has the rights that it needs")
	})

	l.Step("etcd hangs for some seconds, and nothing is lost or done twice", func(s *lab.Step) {
		holder := s.Kubectl("get lease -n kube-system kube-controller-manager -o jsonpath={.spec.holderIdentity}")
		const many = 80
		for i := range many {
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", i), Annotations: map[string]string{corev1.ServiceAccountNameKey: "builder"}},
				Type:       corev1.SecretTypeServiceAccountToken,
			}
			_, err := l.Client.CoreV1().Secrets("shop").Create(s.Context(), secret, metav1.CreateOptions{})
			require.NoError(s, err)
		}
		s.Say("%d token Secrets were created", many)
		empty := func(ctx context.Context) (count int, err error) {
			list, err := l.Client.CoreV1().Secrets("shop").List(ctx, metav1.ListOptions{})
			if err != nil {
				return 0, err
			}
			for i := range list.Items {
				if !filled(&list.Items[i]) {
					count++
				}
			}
			return count, nil
		}
		left, err := empty(s.Context())
		require.NoError(s, err)
		require.NoError(s, l.Cluster.Stop(s.Context(), cluster.Etcd))
		s.Say("etcd was frozen when %d of them were empty", left)
		assert.NotZero(s, left, "the loop was to be in the middle of its work")
		s.KubectlFails("create namespace hasty --request-timeout=3s")
		require.NoError(s, l.Cluster.Continue(s.Context(), cluster.Etcd))
		s.Say("etcd goes on")
		s.Await("all Secrets are filled", func(ctx context.Context) (bool, string, error) {
			left, err := empty(ctx)
			return left == 0, fmt.Sprintf("%d are empty", left), err
		})
		s.Kubectl("create namespace patient")
		s.Say("The refusal of before meant that nobody knew. The namespace may be there or not:")
		s.Kubectl("get namespace hasty --ignore-not-found")
		awaitBundles(s)
		s.Always(recording, "no token was replaced by another", neverReplaced())
		assert.Equal(s, holder, s.Kubectl("get lease -n kube-system kube-controller-manager -o jsonpath={.spec.holderIdentity}"), "it was patient enough to stay the leader")
	})

	l.Step("While no manager runs the API server signs, and what happens is made up for", func(s *lab.Step) {
		s.Kubectl("create serviceaccount courier -n shop")
		s.Kubectl("create -n shop -f manifests/courier.yaml")
		awaitSecret(s, "courier-token", "has a token", filled)
		s.Stop(kcm)
		// Not by kubectl create token, which would fill the screen.
		request, err := l.Client.CoreV1().ServiceAccounts("shop").CreateToken(s.Context(), "builder", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		require.NoError(s, err)
		s.Say("A token that is asked for says %s", part(s, request.Status.Token, 1))
		assert.Equal(s, "system:serviceaccount:shop:builder", bearer(s, request.Status.Token))
		assert.NotNil(s, claimsOf(s, request.Status.Token).Expires, "such a token has an end")
		s.Kubectl("delete serviceaccount courier -n shop")
		s.Kubectl("create -n shop -f manifests/next.yaml")
		kcm = s.Start("next-key", alone, "--service-account-private-key-file="+l.Cluster.NextServiceAccountKeyFile())
		awaitGone(s, "courier-token")
		awaitSecret(s, "next-token", "has a token", filled)
	})

	l.Step("The manager has another key: old tokens stay, new ones are signed with it", func(s *lab.Step) {
		old := token(awaitSecret(s, "builder-token", "has a token", filled))
		next := token(awaitSecret(s, "next-token", "has a token", filled))
		s.Say("builder-token: %s", part(s, old, 0))
		s.Say("next-token:    %s", part(s, next, 0))
		assert.NotEqual(s, headerOf(s, old).KeyID, headerOf(s, next).KeyID)
		for _, one := range []string{old, next} {
			assert.Equal(s, "system:serviceaccount:shop:builder", bearer(s, one), "the API server has the public keys of both")
		}
		s.Always(recording, "no token was replaced by another", neverReplaced())
		s.Say("Who wants one by the new key takes the old one out.")
		s.Kubectl(`patch -n shop secret builder-token --type=merge -p '{"data":{"token":null}}'`)
		renewed := token(awaitSecret(s, "builder-token", "has a token again", filled))
		assert.Equal(s, headerOf(s, next).KeyID, headerOf(s, renewed).KeyID)
		assert.Equal(s, "system:serviceaccount:shop:builder", bearer(s, renewed))
	})

	l.Step("Without names of their own the loops have the rights of the manager, and those are few", func(s *lab.Step) {
		s.Stop(kcm)
		kcm = s.Start("nameless", alone, "--use-service-account-credentials=false")
		s.Kubectl("create namespace bare")
		s.AwaitLog(kcm, "configmaps is forbidden")
		s.Await("the namespace has its account", func(ctx context.Context) (bool, string, error) {
			_, err := l.Client.CoreV1().ServiceAccounts("bare").Get(ctx, "default", metav1.GetOptions{})
			return err == nil, "it is there", err
		})
		s.Await("the refusal is in the audit log", func(context.Context) (bool, string, error) {
			refused := requests(s, func(e cluster.AuditEvent) bool {
				return e.Namespace == "bare" && e.Resource == "configmaps" && e.Code == 403
			})
			return len(refused) > 0 && refused[0].User == manager, fmt.Sprint(refused), nil
		})
		s.Kubectl("auth can-i create configmaps -n bare --as=" + publisher)
		assert.Equal(s, "no\n", s.KubectlFails("auth can-i create configmaps -n bare --as="+manager))
		s.Stop(kcm)
	})

	l.Step("Somebody else writes at the same moment, and neither's write is lost", func(s *lab.Step) {
		s.Kubectl(`patch -n shop serviceaccount builder --type=merge -p '{"secrets":[{"name":"first"},{"name":"next-token"},{"name":"last"}]}'`)
		s.Kubectl(`patch -n shop secret builder-token --type=merge -p '{"data":{"token":null}}'`)
		begin := time.Now()
		s.Say("The requests of the next manager pass somebody who writes, just before each of its first two updates, the same object.")
		m := meddle(s, l.Client, "/api/v1/namespaces/shop/secrets/builder-token", "/api/v1/namespaces/shop/serviceaccounts/builder")
		kcm = s.Start("disturbed", alone, "--use-service-account-credentials=false", "--kubeconfig="+m)
		secret := awaitSecret(s, "builder-token", "has a token again", filled)
		assert.Equal(s, "2", secret.Annotations[mark])
		s.Kubectl("delete -n shop secret next-token")
		s.Await("the Secret is out of the list of its account", func(ctx context.Context) (bool, string, error) {
			account, err := l.Client.CoreV1().ServiceAccounts("shop").Get(ctx, "builder", metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return slices.Equal(account.Secrets, []corev1.ObjectReference{{Name: "first"}, {Name: "last"}}) && account.Annotations[mark] == "2",
				fmt.Sprint(account.Secrets, account.Annotations), nil
		})
		for _, resource := range []string{"secrets", "serviceaccounts"} {
			s.Await("two updates of "+resource+" were refused with a conflict, and the third was not", func(context.Context) (bool, string, error) {
				var codes []int
				for _, e := range requests(s, func(e cluster.AuditEvent) bool {
					return e.Verb == "update" && e.Resource == resource && e.Namespace == "shop" && e.Time.After(begin)
				}) {
					codes = append(codes, e.Code)
				}
				return slices.Equal(codes, []int{409, 409, 200}), fmt.Sprint(codes), nil
			})
		}
		s.Stop(kcm)
		s.Always(recording, "what the other has written was never undone", neverUndone())
		s.Always(recording, "no token was replaced by another", neverReplaced())
	})
}

// header is the first part of a token, and says how it was signed.
type header struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
}

// claims are the second part, and say who the bearer is.
type claims struct {
	Issuer     string    `json:"iss"`
	Subject    string    `json:"sub"`
	Audience   any       `json:"aud"`
	Expires    any       `json:"exp"`
	Namespace  string    `json:"kubernetes.io/serviceaccount/namespace"`
	Secret     string    `json:"kubernetes.io/serviceaccount/secret.name"`
	Account    string    `json:"kubernetes.io/serviceaccount/service-account.name"`
	AccountUID types.UID `json:"kubernetes.io/serviceaccount/service-account.uid"`
}

func token(secret *corev1.Secret) string { return string(secret.Data["token"]) }

// part returns a part of a token as the JSON that it is.
func part(s *lab.Step, token string, number int) string {
	s.Helper()
	parts := strings.Split(token, ".")
	require.Len(s, parts, 3, "a token has three parts")
	decoded, err := base64.RawURLEncoding.DecodeString(parts[number])
	require.NoError(s, err)
	return string(decoded)
}

func headerOf(s *lab.Step, token string) (h header) {
	s.Helper()
	require.NoError(s, json.Unmarshal([]byte(part(s, token, 0)), &h))
	return h
}

func claimsOf(s *lab.Step, token string) (c claims) {
	s.Helper()
	require.NoError(s, json.Unmarshal([]byte(part(s, token, 1)), &c))
	return c
}

// neverReplaced returns a function that fails for a state in which a Secret has
// another token than it had just before. One that was emptied may be filled.
func neverReplaced() func(history.State) error {
	before := map[types.UID]string{}
	return func(state history.State) error {
		for _, secret := range state.Objects("secrets") {
			now, _, _ := unstructured.NestedString(secret.Object, "data", "token")
			had := before[secret.GetUID()]
			if had != "" && now != "" && had != now {
				return fmt.Errorf("%s had %s and has %s", secret.GetName(), had, now)
			}
			before[secret.GetUID()] = now
		}
		return nil
	}
}

// neverUndone returns a function that fails for a state in which a mark of the
// meddler is an older one than before.
func neverUndone() func(history.State) error {
	before := map[types.UID]string{}
	return func(state history.State) error {
		for _, object := range slices.Concat(state.Objects("secrets"), state.Objects("serviceaccounts")) {
			now := object.GetAnnotations()[mark]
			if now < before[object.GetUID()] {
				return fmt.Errorf("%s has the mark %q after %q", object.GetName(), now, before[object.GetUID()])
			}
			before[object.GetUID()] = now
		}
		return nil
	}
}

// mark is the annotation in which the meddler counts.
const mark = "meddled"

// meddle returns the path of a kubeconfig for a manager whose requests pass a
// meddler: before each of the first two updates of the objects with these paths, the
// meddler writes the same object.
func meddle(s *lab.Step, client kubernetes.Interface, paths ...string) string {
	s.Helper()
	var mu sync.Mutex
	updates := map[string]int{}
	return s.Through("meddled", func(next lab.RoundTripper) lab.RoundTripper {
		return func(request *http.Request) (*http.Response, error) {
			if path := request.URL.Path; request.Method == http.MethodPut && slices.Contains(paths, path) {
				mu.Lock()
				updates[path]++
				number := updates[path]
				mu.Unlock()
				if number <= 2 {
					patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, mark, number)
					if err := client.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(path).Body([]byte(patch)).Do(request.Context()).Error(); err != nil {
						return nil, err
					}
				}
			}
			return next(request)
		}
	})
}
