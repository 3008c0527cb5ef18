package bootstrapsigner

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// inWords says what a plan is to do.
func (p plan) inWords() string {
	words := []string{"nothing is written"}
	if p.update != nil {
		words[0] = signers(p.update)
	}
	if !p.again.IsZero() {
		words = append(words, "again at "+p.again.UTC().Format(time.TimeOnly))
	}
	if p.obstacle != "" {
		words = append(words, p.obstacle)
	}
	return strings.Join(words, "; ")
}

func TestTheSignaturesAreThoseOfTheTokens(t *testing.T) {
	t.Parallel()
	a, b := tokenNamed("aaaaaa"), tokenNamed("bbbbbb")
	for _, test := range []struct {
		behaviour string
		seen      *corev1.ConfigMap
		tokens    []*corev1.Secret
		want      string
	}{
		{"a token signs", info(), []*corev1.Secret{a}, "signed by aaaaaa"},
		{"each token signs", info(), []*corev1.Secret{a, b}, "signed by aaaaaa, bbbbbb"},
		{"nothing is written to what is as it should be", info(signedBy("aaaaaa", "bbbbbb")), []*corev1.Secret{b, a}, "nothing is written"},
		{"nothing is written where no token is and no signature", info(), nil, "nothing is written"},
		{"of a token that is gone the signature goes", info(signedBy("aaaaaa", "bbbbbb")), []*corev1.Secret{b}, "signed by bbbbbb"},
		{"the signature of another text is replaced", info(signedBy("aaaaaa"), data("kubeconfig", "another")), []*corev1.Secret{a}, "signed by aaaaaa"},
		{"the signature with another secret is replaced", info(data("jws-kubeconfig-aaaaaa", "e..x")), []*corev1.Secret{a}, "signed by aaaaaa"},
		{"what has the name of a signature and is of no token goes", info(data("jws-kubeconfig-", "e..x"), data("jws-kubeconfig-x.y", "")), nil, "signed by nobody"},
		{"other data that begins almost so stays", info(data("jws-kubeconfig", "mine")), nil, "nothing is written"},
		{"a text that is no kubeconfig is signed", info(data("kubeconfig", "\x00}{\n")), []*corev1.Secret{a}, "signed by aaaaaa"},
		{"an empty text is signed", info(data("kubeconfig", "")), []*corev1.Secret{a}, "signed by aaaaaa"},
		{"without a text all stays as it is", info(signedBy("aaaaaa"), func(cm *corev1.ConfigMap) { delete(cm.Data, "kubeconfig") }),
			[]*corev1.Secret{b}, "nothing is written; it has no kubeconfig"},
		{"so does a ConfigMap without data", info(func(cm *corev1.ConfigMap) { cm.Data = nil }), []*corev1.Secret{a}, "nothing is written; it has no kubeconfig"},
		{"an immutable ConfigMap is not written", info(immutable), []*corev1.Secret{a}, "nothing is written; it is immutable; delete it, and make it anew"},
		{"an immutable ConfigMap may have what it needs", info(signedBy("aaaaaa"), immutable), []*corev1.Secret{a}, "nothing is written"},
		{"a token that runs out signs until then", info(), []*corev1.Secret{tokenNamed("aaaaaa", until("02:00:00"))}, "signed by aaaaaa; again at 02:00:00"},
		{"the first that runs out is when to look again", info(signedBy("aaaaaa", "bbbbbb", "cccccc")),
			[]*corev1.Secret{tokenNamed("aaaaaa", until("03:00:00")), b, tokenNamed("cccccc", until("02:00:00"))}, "nothing is written; again at 02:00:00"},
		{"one that has run out is not waited for", info(signedBy("aaaaaa")), []*corev1.Secret{tokenNamed("aaaaaa", until("00:00:00"))}, "signed by nobody"},
		{"one that may not sign is not waited for", info(),
			[]*corev1.Secret{tokenNamed("aaaaaa", until("02:00:00"), without("usage-bootstrap-signing"))}, "nothing is written"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			situation := fmt.Sprintf("cluster-info is %s, and there are %d tokens", signers(test.seen), len(test.tokens))
			assert.Equal(t, test.want, decide(test.seen, test.tokens, midnight).inWords(), situation)
		})
	}
}

func TestAllElseInClusterInfoIsTheUsers(t *testing.T) {
	t.Parallel()
	t.Run("the version that was looked at, labels, annotations and other data stay", func(t *testing.T) {
		t.Parallel()
		seen := info(data("notes", "mine"), func(cm *corev1.ConfigMap) { cm.BinaryData = map[string][]byte{"logo": {1}} })
		want := info(data("notes", "mine"), signedBy("aaaaaa"), func(cm *corev1.ConfigMap) { cm.BinaryData = map[string][]byte{"logo": {1}} })
		assert.Equal(t, want, decide(seen, []*corev1.Secret{tokenNamed("aaaaaa")}, midnight).update)
	})
	t.Run("a key of binaryData that a signature needs is given up", func(t *testing.T) {
		t.Parallel()
		seen := info(func(cm *corev1.ConfigMap) {
			cm.BinaryData = map[string][]byte{"jws-kubeconfig-aaaaaa": {1}, "jws-kubeconfig-bbbbbb": {2}}
		})
		assert.Equal(t, map[string][]byte{"jws-kubeconfig-bbbbbb": {2}}, decide(seen, []*corev1.Secret{tokenNamed("aaaaaa")}, midnight).update.BinaryData,
			"a key is in one of the two only, or the API server refuses the ConfigMap")
	})
	t.Run("the cache's own ConfigMap is not changed", func(t *testing.T) {
		t.Parallel()
		seen := info(signedBy("bbbbbb"))
		decide(seen, []*corev1.Secret{tokenNamed("aaaaaa")}, midnight)
		assert.Equal(t, info(signedBy("bbbbbb")), seen)
	})
}

func TestAFullConfigMapHasTheSignaturesForWhichThereIsRoom(t *testing.T) {
	t.Parallel()
	born := func(minute int) func(*corev1.Secret) {
		return func(s *corev1.Secret) {
			s.CreationTimestamp = metav1.NewTime(midnight.Add(time.Duration(minute) * time.Minute))
		}
	}
	const one = 40 + 2 + 43 + 2*len("jws-kubeconfig-aaaaaa") // header, dots, signature, and the key in both places
	filled := func(left int) *corev1.ConfigMap {
		return info(data("kubeconfig", strings.Repeat("x", corev1.MaxSecretSize-left)))
	}
	tokens := []*corev1.Secret{tokenNamed("aaaaaa", born(3)), tokenNamed("bbbbbb", born(1)), tokenNamed("cccccc", born(2))}
	for _, test := range []struct {
		behaviour string
		left      int
		want      string
	}{
		{"all sign where there is room for all", 3 * one, "signed by aaaaaa, bbbbbb, cccccc"},
		{"the older ones sign where there is no room for all", 3*one - 1, "signed by bbbbbb, cccccc; it is full"},
		{"the oldest signs where there is room for one", one, "signed by bbbbbb; it is full"},
		{"nobody signs where there is no room", one - 1, "nothing is written; it is full"},
		{"nobody signs where there is none at all", 0, "nothing is written; it is full"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, decide(filled(test.left), tokens, midnight).inWords(), "there are %d bytes left", test.left)
		})
	}
}

func TestWhichTokensMaySign(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		behaviour string
		secret    *corev1.Secret
		want      string
	}{
		{"a token that says so signs", tokenNamed("abc123"), ""},
		{"it need not be for anything else", tokenNamed("abc123", without("usage-bootstrap-authentication")), ""},
		{"a token that says nothing of it does not", tokenNamed("abc123", without("usage-bootstrap-signing")), "its usage-bootstrap-signing is not true"},
		{"nor one that says yes in another way", tokenNamed("abc123", saying("usage-bootstrap-signing", "True")), "its usage-bootstrap-signing is not true"},
		{"nor one without data", tokenNamed("abc123", func(s *corev1.Secret) { s.Data = nil }), "its token-id is not that of its name"},
		{"nor one without a secret", tokenNamed("abc123", without("token-secret")), "it has no token-secret"},
		{"nor one with an empty secret", tokenNamed("abc123", saying("token-secret", "")), "it has no token-secret"},
		{"a secret may be of any bytes and length", tokenNamed("abc123", saying("token-secret", "\xff\x00"+strings.Repeat("long", 1000))), ""},
		{"the ID is that of the name", tokenNamed("abc123", saying("token-id", "abc124")), "its token-id is not that of its name"},
		{"an ID has six letters or digits", tokenNamed("abc12"), "its name is not bootstrap-token- and an ID of six small letters or digits"},
		{"the letters are small ones", tokenNamed("abc-12"), "its name is not bootstrap-token- and an ID of six small letters or digits"},
		{"a name of another kind has no ID", tokenNamed("abc123", named("join")), "its name is not bootstrap-token- and an ID of six small letters or digits"},
		{"a token signs until it runs out", tokenNamed("abc123", until("00:00:01")), ""},
		{"and then no longer", tokenNamed("abc123", until("00:00:00")), "it has run out"},
		{"a time may be that of another zone", tokenNamed("abc123", until("2000-01-01T03:00:00+02:00")), ""},
		{"and have passed there", tokenNamed("abc123", until("2000-01-01T01:00:00+02:00")), "it has run out"},
		{"a time that is empty is none", tokenNamed("abc123", until("")), ""},
		{"what is no time has passed", tokenNamed("abc123", until("tomorrow")), "it has run out"},
		{"so has a time without a zone", tokenNamed("abc123", until("2999-12-31T00:00:00")), "it has run out"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			_, reason := tokenOf(test.secret, midnight)
			assert.Equal(t, test.want, reason, "why the token does not sign: %s", test.secret.Data)
		})
	}
}

func TestASignatureIsByteForByteWhatKubeadmComputes(t *testing.T) {
	t.Parallel()
	cm := info(data("kubeconfig", "payload"))
	secret := tokenNamed("abc123", saying("token-secret", "tokenSecret"))
	signature := decide(cm, []*corev1.Secret{secret}, midnight).update.Data["jws-kubeconfig-abc123"]
	assert.Equal(t, "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958", signature, "as in the original's tests")

	encode := base64.RawURLEncoding.EncodeToString
	header := encode([]byte(`{"alg":"HS256","kid":"abc123"}`))
	mac := hmac.New(sha256.New, []byte("tokenSecret")) // the secret alone, without the ID
	mac.Write([]byte(header + "." + encode([]byte("payload"))))
	assert.Equal(t, header+".."+encode(mac.Sum(nil)), signature, "as RFC 7515 has it, with the text left out")
}

// Whatever is there, a second look after the first has written finds nothing to
// write, and each signature that is there is that of a token.
func TestOneWriteIsEnough(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[ab]{6}`), 0, 6, rapid.ID[string]).Draw(t, "ids")
		seen := info()
		for _, id := range rapid.SliceOfN(rapid.StringMatching(`[ab]{6}`), 0, 4).Draw(t, "signed already") {
			seen.Data["jws-kubeconfig-"+id] = rapid.SampledFrom([]string{"", "e..x"}).Draw(t, "signature")
		}
		var tokens []*corev1.Secret
		for _, id := range ids {
			expiration := rapid.SampledFrom([]string{"", "soon", "00:00:00", "01:00:00"}).Draw(t, "expiration")
			may := rapid.SampledFrom([]string{"true", "false", ""}).Draw(t, "may sign")
			tokens = append(tokens, tokenNamed(id, until(expiration), saying("usage-bootstrap-signing", may)))
		}
		now := midnight.Add(30 * time.Minute)
		first := decide(seen, tokens, now)
		if first.update != nil {
			seen = first.update
		}
		require.Nil(t, decide(seen, tokens, now).update, "the second look")
		require.NotContains(t, signers(seen), "with another", "each signature that is there proves something")
	})
}
