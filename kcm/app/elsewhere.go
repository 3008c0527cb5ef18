package app

import (
	"context"
	"slices"

	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/app/config"
	"github.com/kcm-book/kcm-book/kcm/app/options"
)

// controllersElsewhere returns the controllers of kube-controller-manager that
// kcm does not have. Their names may stand in --controllers, because kubeadm
// puts some there.
func controllersElsewhere() []*ControllerDescriptor {
	here := KnownControllers()
	var elsewhere []*ControllerDescriptor
	for _, c := range options.ReadOriginal().Controllers {
		if !slices.Contains(here, c.Name) {
			elsewhere = append(elsewhere, &ControllerDescriptor{name: c.Name, aliases: c.Aliases, disabledByDefault: c.DisabledByDefault})
		}
	}
	return elsewhere
}

// logControllersElsewhere says which controllers are wanted and do not run
// because kcm does not have them.
func logControllersElsewhere(ctx context.Context, c config.CompletedConfig) {
	missing := names(controllersElsewhere(), func(d *ControllerDescriptor) bool {
		return d.isEnabled(c.ComponentConfig.Generic.Controllers)
	})
	if len(missing) > 0 && c.Name != config.CloudManagerName {
		klog.FromContext(ctx).Info("Nothing does the work of these controllers, kcm does not have them", "controllers", missing)
	}
}
