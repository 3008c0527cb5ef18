package endpointslice

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// identity tells endpoints apart. Two that have the same are one endpoint, of
// which something may have changed.
type identity struct {
	addresses, hostname, namespace, name string
}

func identify(endpoint discoveryv1.Endpoint) identity {
	id := identity{
		addresses: strings.Join(endpoint.Addresses, ","),
		hostname:  ptr.Deref(endpoint.Hostname, ""),
	}
	if ref := endpoint.TargetRef; ref != nil {
		id.namespace, id.name = ref.Namespace, ref.Name
	}
	return id
}

// tellsTheSame tells whether of one endpoint the same is said twice. The version
// of its pod and hints do not count: hints are given later.
func tellsTheSame(a, b discoveryv1.Endpoint) bool {
	return ptr.Equal(a.NodeName, b.NodeName) && ptr.Equal(a.Zone, b.Zone) &&
		ptr.Equal(a.Conditions.Ready, b.Conditions.Ready) &&
		ptr.Equal(a.Conditions.Serving, b.Conditions.Serving) &&
		ptr.Equal(a.Conditions.Terminating, b.Conditions.Terminating) &&
		sameTarget(a.TargetRef, b.TargetRef)
}

func sameTarget(a, b *corev1.ObjectReference) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.ResourceVersion, y.ResourceVersion = "", ""
	return x == y
}
