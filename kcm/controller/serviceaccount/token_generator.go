package serviceaccount

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"

	jose "gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	corev1 "k8s.io/api/core/v1"
	apiserverserviceaccount "k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/klog/v2"
)

// LegacyIssuer is who issues the tokens that are kept in Secrets. The API
// server knows by this name how to check them: the Secret must still exist and
// hold the very same token. Tokens from the TokenRequest API have another.
const LegacyIssuer = "kubernetes/serviceaccount"

// claims are what a token says about its bearer. There is no expiry among
// them: a token is taken back by deleting its Secret.
type claims struct {
	Issuer      string `json:"iss"`
	Subject     string `json:"sub"`
	Namespace   string `json:"kubernetes.io/serviceaccount/namespace"`
	SecretName  string `json:"kubernetes.io/serviceaccount/secret.name"`
	AccountName string `json:"kubernetes.io/serviceaccount/service-account.name"`
	AccountUID  string `json:"kubernetes.io/serviceaccount/service-account.uid"`
}

// TokenGenerator signs tokens as JSON Web Tokens (RFC 7519).
type TokenGenerator struct {
	signer jose.Signer
}

// NewTokenGenerator returns a generator that signs with privateKey, which is
// an *rsa.PrivateKey or an *ecdsa.PrivateKey on curve P-256, P-384 or P-521.
// The API server accepts the tokens if it was given the public key in
// --service-account-key-file.
func NewTokenGenerator(privateKey any) (TokenGenerator, error) {
	algorithm, err := algorithmFor(privateKey)
	if err != nil {
		return TokenGenerator{}, err
	}
	id, err := keyID(privateKey.(crypto.Signer).Public())
	if err != nil {
		return TokenGenerator{}, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: algorithm,
		Key:       jose.JSONWebKey{Key: privateKey, KeyID: id},
	}, nil)
	if err != nil {
		return TokenGenerator{}, fmt.Errorf("make a signer of the service account key: %w", err)
	}
	return TokenGenerator{signer: signer}, nil
}

// algorithmFor returns how to sign with a key so that the API server, which
// goes by the type of its public keys, accepts it.
func algorithmFor(privateKey any) (jose.SignatureAlgorithm, error) {
	switch key := privateKey.(type) {
	case *rsa.PrivateKey:
		return jose.RS256, nil
	case *ecdsa.PrivateKey:
		switch key.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
		return "", fmt.Errorf("service account key is on curve %s, want P-256, P-384 or P-521", key.Params().Name)
	default:
		return "", fmt.Errorf("service account key is a %T, want an RSA or ECDSA private key", privateKey)
	}
}

// keyID names a public key by its SHA-256 hash. It stands in the header of
// each token, so that an API server that trusts several keys, as it does while
// keys are rotated, tries the right one only.
func keyID(publicKey crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(publicKey)
	if err != nil {
		return "", fmt.Errorf("encode public service account key: %w", err)
	}
	hash := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(hash[:]), nil
}

// GenerateToken returns a token by which its bearer is account, for as long
// as both account and secret exist and secret holds the token.
func (g TokenGenerator) GenerateToken(account *corev1.ServiceAccount, secret *corev1.Secret) (string, error) {
	token, err := jwt.Signed(g.signer).Claims(claims{
		Issuer:      LegacyIssuer,
		Subject:     apiserverserviceaccount.MakeUsername(account.Namespace, account.Name),
		Namespace:   account.Namespace,
		SecretName:  secret.Name,
		AccountName: account.Name,
		AccountUID:  string(account.UID),
	}).CompactSerialize()
	if err != nil {
		return "", fmt.Errorf("sign token for service account %s: %w", klog.KObj(account), err)
	}
	return token, nil
}
