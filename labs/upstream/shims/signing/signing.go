// Package serviceaccount stands for k8s.io/kubernetes/pkg/serviceaccount, so that kcm signs the tokens, too.
package serviceaccount

import (
	upstream "k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/kcm-book/kcm-book/kcm/controller/serviceaccount"
)

const (
	InvalidSinceLabelKey = upstream.InvalidSinceLabelKey
	LastUsedLabelKey     = upstream.LastUsedLabelKey
	LegacyIssuer         = upstream.LegacyIssuer
)

// JWTTokenGenerator returns kcm's generator, which knows the issuer.
func JWTTokenGenerator(_ string, privateKey any) (serviceaccount.TokenGenerator, error) {
	return serviceaccount.NewTokenGenerator(privateKey)
}
