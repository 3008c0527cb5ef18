package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

func TestOnlyTheControllerManagersRequestsCount(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]bool{
		"system:kube-controller-manager":                          true,
		"system:serviceaccount:kube-system:deployment-controller": true,
		"system:serviceaccount:default:default":                   false,
		"system:kube-scheduler":                                   false,
		"kubernetes-admin":                                        false,
		"kwok":                                                    false,
	} {
		assert.Equal(t, want, isControllerManager(user), user)
	}
}

func TestRequestsAreDescribed(t *testing.T) {
	t.Parallel()
	event := cluster.AuditEvent{Verb: "update", Resource: "deployments", Subresource: "status", Code: 200}
	assert.Equal(t, "update deployments/status", describe(event))
	event.Code = 409
	assert.Equal(t, "update deployments/status (409)", describe(event))
}
