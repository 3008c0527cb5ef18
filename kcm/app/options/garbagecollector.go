package options

import (
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	kcmconfig "k8s.io/kube-controller-manager/config/v1alpha1"
	"k8s.io/utils/ptr"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// addGarbageCollectorFlags sets what no flag does, too: events, under both of
// their names, are not watched. They are many, they expire by themselves, and
// nothing owns them.
func addGarbageCollectorFlags(c *config.ComponentConfig, fs *pflag.FlagSet) {
	gc := &c.GarbageCollector
	gc.GCIgnoredResources = []kcmconfig.GroupResource{
		{Group: corev1.GroupName, Resource: "events"},
		{Group: eventsv1.GroupName, Resource: "events"},
	}
	gc.EnableGarbageCollector = ptr.To(true)
	fs.BoolVar(gc.EnableGarbageCollector, "enable-garbage-collector", *gc.EnableGarbageCollector,
		"Whether objects are deleted when their owners are gone. The API server has a flag of this name, and both have to say the same.")
}
