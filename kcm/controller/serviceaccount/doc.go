// Package serviceaccount gives every namespace its ServiceAccounts and every
// ServiceAccount the tokens that were asked for by a Secret.
//
// [ServiceAccountsController] sees to it that each active namespace has a
// ServiceAccount called "default". A pod that names no other runs as that one.
//
// [TokensController] fills Secrets of type
// kubernetes.io/service-account-token with a token that [TokenGenerator]
// signed, and deletes them when their ServiceAccount goes. Such a token lives
// until its Secret is deleted. Since Kubernetes 1.24 no such Secret is made
// unless somebody creates one (KEP-2799): pods get short-lived tokens from the
// TokenRequest API, which the API server signs by itself.
package serviceaccount
