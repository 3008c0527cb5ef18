package servicepods

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldManager is who the managed fields of Endpoints and EndpointSlices say has
// written them. The original has this name, too, and what it has written is known.
const FieldManager = "kube-controller-manager"

// WroteLast tells whether these loops were the last to write the addresses in an
// object, which are the given field. It says so only if it is certain.
//
// The label that says who manages the object proves nothing, and neither does its
// owner: both stay when a user edits the addresses, and come along in a copy. But the
// API server keeps who has set which field. Where there are no addresses, nobody has,
// and then it is the label that these loops have to have set.
func WroteLast(object metav1.Object, label, field string) bool {
	certain := false
	for _, entry := range object.GetManagedFields() {
		var set map[string]map[string]map[string]any
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &set) != nil {
			return false
		}
		_, setLabel := set["f:metadata"]["f:labels"]["f:"+label]
		_, setField := set["f:"+field]
		isOurs := entry.Manager == FieldManager
		if setField && !isOurs {
			return false
		}
		certain = certain || isOurs && (setField || setLabel)
	}
	return certain
}
