package serviceaccount

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/go-jose/go-jose.v2/jwt"
)

func ecdsaKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	require.NoError(t, err)
	return key
}

func TestATokenSaysWhoItsBearerIsAndIsSignedForEveryKindOfKey(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		key       crypto.Signer
		algorithm string
	}{
		"RSA":         {key: rsaKey, algorithm: "RS256"},
		"ECDSA P-256": {key: ecdsaKey(t, elliptic.P256()), algorithm: "ES256"},
		"ECDSA P-384": {key: ecdsaKey(t, elliptic.P384()), algorithm: "ES384"},
		"ECDSA P-521": {key: ecdsaKey(t, elliptic.P521()), algorithm: "ES512"},
	} {
		t.Run(name, func(t *testing.T) {
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
			assert.Equal(t, map[string]any{
				"iss":                                    "kubernetes/serviceaccount",
				"sub":                                    "system:serviceaccount:ns:builder",
				"kubernetes.io/serviceaccount/namespace": "ns",
				"kubernetes.io/serviceaccount/secret.name":          "token",
				"kubernetes.io/serviceaccount/service-account.name": "builder",
				"kubernetes.io/serviceaccount/service-account.uid":  "uid",
			}, said)
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
