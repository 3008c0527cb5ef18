// Package namespace stands for k8s.io/kubernetes/pkg/controller/namespace.
package namespace

import "github.com/kcm-book/kcm-book/kcm/controller/namespace"

// NamespaceController is kcm's.
type NamespaceController = namespace.NamespaceController

// NewNamespaceController is kcm's constructor.
var NewNamespaceController = namespace.NewNamespaceController
