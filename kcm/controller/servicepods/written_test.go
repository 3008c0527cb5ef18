package servicepods

//lint:file-ignore SA1019 Endpoints are deprecated, and this is about them.

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOnlyWhoHasSetTheAddressesLastHasWrittenThem(t *testing.T) {
	t.Parallel()
	const (
		label     = `{"f:metadata":{"f:labels":{".":{},"f:by":{}}}}`
		addresses = `{"f:subsets":{}}`
		both      = `{"f:metadata":{"f:generateName":{},"f:labels":{"f:by":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"1\"}":{}}},"f:subsets":{}}`
		note      = `{"f:metadata":{"f:annotations":{"f:note":{}}}}`
		lookalike = `{"f:metadata":{"f:labels":{"f:subsets":{}}}}`
	)
	type entries = [][2]string
	for what, test := range map[string]struct {
		entries entries
		want    bool
	}{
		"all of it is ours":                              {entries{{FieldManager, both}}, true},
		"a user has added a note":                        {entries{{FieldManager, both}, {"kubectl-annotate", note}}, true},
		"a user has a label that is called as the field": {entries{{FieldManager, both}, {"kubectl-label", lookalike}}, true},
		"a user had made it, and the addresses are ours": {entries{{"kubectl-create", label}, {FieldManager, addresses}}, true},
		"we have written that there are none":            {entries{{FieldManager, label}}, true},
		"a user has edited the addresses":                {entries{{FieldManager, label}, {"kubectl-edit", addresses}}, false},
		"a user asks for the same addresses":             {entries{{FieldManager, both}, {"argocd", addresses}}, false},
		"a user has made a copy":                         {entries{{"kubectl-create", both}}, false},
		"a user has made it without addresses":           {entries{{"kubectl-create", label}, {FieldManager, note}}, false},
		"nobody knows":                                   {nil, false},
		"nothing is said of who has set what":            {entries{{FieldManager, ""}}, false},
		"what is said makes no sense":                    {entries{{FieldManager, both}, {"odd", `{"f:metadata":7}`}}, false},
	} {
		endpoints := &corev1.Endpoints{}
		for _, entry := range test.entries {
			managed := metav1.ManagedFieldsEntry{Manager: entry[0], Operation: metav1.ManagedFieldsOperationUpdate}
			if entry[1] != "" {
				managed.FieldsV1 = metav1.NewFieldsV1(entry[1])
			}
			endpoints.ManagedFields = append(endpoints.ManagedFields, managed)
		}
		assert.Equal(t, test.want, WroteLast(endpoints, "by", "subsets"), what)
	}
}
