package serviceaccount

import (
	"crypto"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jose "gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"
)

func TestATokenSaysWhoItsBearerIs(t *testing.T) {
	t.Parallel()
	generator := generator(t)
	const prefix = "kubernetes.io/serviceaccount/"
	said := func(t *testing.T) map[string]any {
		t.Helper()
		token, err := generator.GenerateToken(builder("uid"), tokenSecret("", nil))
		require.NoError(t, err)
		return saidBy(t, token)
	}
	for _, test := range []struct {
		name   string
		claims map[string]string
	}{
		{"the issuer is the one of tokens that are kept in Secrets", map[string]string{"iss": "kubernetes/serviceaccount"}},
		{"the subject is the user as whom the bearer appears", map[string]string{"sub": "system:serviceaccount:shop:builder"}},
		{"the account is named, with the UID that no later one will have", map[string]string{prefix + "service-account.name": "builder", prefix + "service-account.uid": "uid"}},
		{"the Secret is named in which the API server looks for the token", map[string]string{prefix + "namespace": "shop", prefix + "secret.name": "builder-token"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			said := said(t)
			for claim, want := range test.claims {
				assert.Equal(t, want, said[claim], "the claim %s", claim)
			}
		})
	}
	t.Run("an end and an audience are not among what is said", func(t *testing.T) {
		t.Parallel()
		assert.ElementsMatch(t, []string{
			"iss", "sub", prefix + "namespace", prefix + "secret.name", prefix + "service-account.name", prefix + "service-account.uid",
		}, slices.Collect(maps.Keys(said(t))), "the claims of a token")
	})
	t.Run("it is one text, in three parts with dots between", func(t *testing.T) {
		t.Parallel()
		token, err := generator.GenerateToken(builder("uid"), tokenSecret("", nil))
		require.NoError(t, err)
		assert.Len(t, strings.Split(token, "."), 3, "header, claims and signature of %s", token)
	})
	t.Run("what cannot be signed is an error", func(t *testing.T) {
		t.Parallel()
		token, err := TokenGenerator{signer: brokenSigner{}}.GenerateToken(builder("uid"), tokenSecret("", nil))
		assert.ErrorIs(t, err, errNoSignature)
		assert.ErrorContains(t, err, "shop/builder", "the error says for whom")
		assert.Empty(t, token)
	})
}

// saidBy returns the claims of a token, whoever has signed it.
func saidBy(t *testing.T, text string) map[string]any {
	t.Helper()
	token, err := jwt.ParseSigned(text)
	require.NoError(t, err, "%q is to be a header, claims and a signature, with dots between", text)
	var said map[string]any
	require.NoError(t, token.UnsafeClaimsWithoutVerification(&said))
	return said
}

var errNoSignature = errors.New("no signature")

type brokenSigner struct{ jose.Signer }

func (brokenSigner) Sign([]byte) (*jose.JSONWebSignature, error) { return nil, errNoSignature }
func (brokenSigner) Options() jose.SignerOptions                 { return jose.SignerOptions{} }

func TestATokenIsSignedForEveryKindOfKey(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for _, test := range []struct {
		name      string
		key       crypto.Signer
		algorithm string
	}{
		{name: "an RSA key signs", key: rsaKey, algorithm: "RS256"},
		{name: "an ECDSA key on curve P-256 signs", key: ecdsaKey(t, elliptic.P256()), algorithm: "ES256"},
		{name: "an ECDSA key on curve P-384 signs", key: ecdsaKey(t, elliptic.P384()), algorithm: "ES384"},
		{name: "an ECDSA key on curve P-521 signs", key: ecdsaKey(t, elliptic.P521()), algorithm: "ES512"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			generator, err := NewTokenGenerator(test.key)
			require.NoError(t, err)
			text, err := generator.GenerateToken(builder("uid"), tokenSecret("", nil))
			require.NoError(t, err)

			token, err := jwt.ParseSigned(text)
			require.NoError(t, err)
			require.Len(t, token.Headers, 1)
			assert.Equal(t, test.algorithm, token.Headers[0].Algorithm)
			var said map[string]any
			require.NoError(t, token.Claims(test.key.Public(), &said), "the signature is good")
			assert.Error(t, token.Claims(ecdsaKey(t, elliptic.P256()).Public(), &said), "another key did not sign it")
		})
	}
}

func TestATokenNamesItsKeyByTheHashOfThePublicKey(t *testing.T) {
	t.Parallel()
	// The id was computed by: openssl dgst -sha256 of the DER form, in base64url.
	block, _ := pem.Decode([]byte(`-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAErUhYzfaYjvjznn1lKQHMPBj/eTl+
F80QYeBVtVMqO5FfEyNzGqlPaZ60oldLuy8cAqfeggm4TCrYSMo33/oqsQ==
-----END PUBLIC KEY-----`))
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	require.NoError(t, err)
	id, err := keyID(public)
	require.NoError(t, err)
	assert.Equal(t, "KBKKivzvtArLuMD98K9LYofZkMMVas0VC5958lxvoXA", id)

	key := ecdsaKey(t, elliptic.P256())
	id, err = keyID(key.Public())
	require.NoError(t, err)
	generator, err := NewTokenGenerator(key)
	require.NoError(t, err)
	text, err := generator.GenerateToken(builder("uid"), tokenSecret("", nil))
	require.NoError(t, err)
	token, err := jwt.ParseSigned(text)
	require.NoError(t, err)
	assert.Equal(t, id, token.Headers[0].KeyID)
}

func TestAKeyThatTheServerCouldNotCheckIsRefused(t *testing.T) {
	t.Parallel()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		key     any
		message string
	}{
		"an Ed25519 key":       {key: ed, message: "service account key is a ed25519.PrivateKey, want an RSA or ECDSA private key"},
		"a public key":         {key: ecdsaKey(t, elliptic.P256()).Public(), message: "service account key is a *ecdsa.PublicKey, want an RSA or ECDSA private key"},
		"a key on curve P-224": {key: ecdsaKey(t, elliptic.P224()), message: "service account key is on curve P-224, want P-256, P-384 or P-521"},
		"no key":               {key: nil, message: "service account key is a <nil>, want an RSA or ECDSA private key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := NewTokenGenerator(test.key)
			assert.EqualError(t, err, test.message)
		})
	}
}
