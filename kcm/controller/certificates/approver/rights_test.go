package approver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestARoleHoldsTheRightOrNot(t *testing.T) {
	t.Parallel()
	type texts = []string
	certificates, create := texts{"certificates.k8s.io"}, texts{"create"}
	for behaviour, test := range map[string]struct {
		rule rbacv1.PolicyRule
		want bool
	}{
		"nodeclient is one of the rights":         {rbacv1.PolicyRule{APIGroups: certificates, Resources: texts{"certificatesigningrequests/nodeclient"}, Verbs: create}, true},
		"selfnodeclient is the other":             {rbacv1.PolicyRule{APIGroups: certificates, Resources: texts{"certificatesigningrequests/selfnodeclient"}, Verbs: create}, true},
		"who may do everything has both":          {rbacv1.PolicyRule{APIGroups: texts{"*"}, Resources: texts{"*"}, Verbs: texts{"*"}}, true},
		"a subresource may be that of anything":   {rbacv1.PolicyRule{APIGroups: certificates, Resources: texts{"*/nodeclient"}, Verbs: create}, true},
		"to create requests is another right":     {rbacv1.PolicyRule{APIGroups: certificates, Resources: texts{"certificatesigningrequests"}, Verbs: create}, false},
		"to approve them is another right":        {rbacv1.PolicyRule{APIGroups: certificates, Resources: texts{"certificatesigningrequests/approval"}, Verbs: texts{"update"}}, false},
		"to read is not to create":                {rbacv1.PolicyRule{APIGroups: certificates, Resources: texts{"certificatesigningrequests/nodeclient"}, Verbs: texts{"get"}}, false},
		"it is a right in the group of requests":  {rbacv1.PolicyRule{APIGroups: texts{"apps"}, Resources: texts{"certificatesigningrequests/nodeclient"}, Verbs: create}, false},
		"a right to requests of one name is none": {rbacv1.PolicyRule{APIGroups: certificates, Resources: texts{"certificatesigningrequests/nodeclient"}, Verbs: create, ResourceNames: texts{"a"}}, false},
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			rules := []rbacv1.PolicyRule{{Verbs: texts{"get"}, NonResourceURLs: texts{"/healthz"}}, test.rule}
			assert.Equal(t, test.want, grants(rules, nodeClient) || grants(rules, selfNodeClient))
		})
	}
	assert.False(t, grants(nil, nodeClient), "a role without rules")
}
