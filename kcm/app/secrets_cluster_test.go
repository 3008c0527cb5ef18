package app_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
)

// At -v=8 client-go logs the bodies of requests and answers, and in these are a
// Secret with a token, the tokens of the loops, and that of who looks at /configz.
func TestNoKeyAndNoTokenIsInTheLogAtAnyVerbosity(t *testing.T) {
	t.Parallel()
	c, client := clustertest.Cluster(t), clustertest.Client(t)
	r := start(t, "secrets", "-v=10", "--vmodule=request=10,round_trippers=10", "--use-service-account-credentials",
		"--controllers=serviceaccount-controller,serviceaccount-token-controller", "--service-account-private-key-file="+c.ServiceAccountKey)
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

	log := r.Log.String()
	require.Contains(t, log, `"Response"`, "requests are logged, at 6")
	key, err := os.ReadFile(c.ServiceAccountKey)
	require.NoError(t, err)
	secrets := append(strings.Fields(string(key))[4:10], token, base64.StdEncoding.EncodeToString([]byte(token)), hex.Dump([]byte(token))[10:58])
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
