package app

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"

	"github.com/kcm-book/kcm-book/kcm/app/config"
	"github.com/kcm-book/kcm-book/kcm/app/options"
	"github.com/kcm-book/kcm-book/kcm/controller"
)

// Loop is a control loop that was built and waits to be run.
type Loop interface {
	// Run syncs with as many workers as it is told and returns when ctx has
	// ended and its goroutines with it.
	Run(ctx context.Context, workers int)
}

// Controller is a loop with what the manager needs to run it.
type Controller struct {
	Loop
	// Workers is how many objects the loop may sync at the same time.
	Workers int
}

// ControllerConstructor builds a controller, whose client is the given one. It
// returns nil where the controller has nothing to do with the configuration.
type ControllerConstructor func(ctx context.Context, c *ControllerContext, client kubernetes.Interface) (*Controller, error)

// ControllerDescriptor says what is known of a controller before it is built.
type ControllerDescriptor struct {
	name string
	// aliases are names that the controller had before. They stay valid.
	aliases []string
	// account is who the controller's client is: the name in the audit log,
	// and that of a ServiceAccount with --use-service-account-credentials.
	account     string
	constructor ControllerConstructor
	// reads is what the controller reads of objects that are trimmed before they
	// are cached.
	reads []*controller.Keep
	// requiredFeatureGates must all be on.
	requiredFeatureGates []featuregate.Feature
	// disabledByDefault controllers run only when --controllers names them.
	disabledByDefault bool
	// isCloudProvider controllers do what depends on the cloud that the cluster
	// runs in. They are left out where the program has none.
	isCloudProvider bool
	// requiresSpecialHandling is for the controller that the others depend
	// on. It is built before them, whatever --controllers says.
	requiresSpecialHandling bool
}

// isEnabled tells whether --controllers wants the controller. The first item
// that names it decides; "*" speaks for those that none names.
func (d *ControllerDescriptor) isEnabled(controllers []string) bool {
	for _, item := range controllers {
		switch item {
		case d.name:
			return true
		case "-" + d.name:
			return false
		}
	}
	return slices.Contains(controllers, "*") && !d.disabledByDefault
}

// reads returns what the controllers read that --controllers wants, which may run.
func reads(descriptors []*ControllerDescriptor, controllers []string) []*controller.Keep {
	var reads []*controller.Keep
	for _, d := range descriptors {
		if d.requiresSpecialHandling || d.isEnabled(controllers) {
			reads = append(reads, d.reads...)
		}
	}
	return reads
}

// KnownControllers returns the names of all controllers, sorted.
func KnownControllers() []string {
	return names(NewControllerDescriptors(), func(*ControllerDescriptor) bool { return true })
}

// ControllersDisabledByDefault returns the names of the controllers that run
// only when they are named, sorted.
func ControllersDisabledByDefault() []string {
	return names(NewControllerDescriptors(), func(d *ControllerDescriptor) bool { return d.disabledByDefault })
}

// ControllerAliases leads from former names to names.
func ControllerAliases() map[string]string {
	return aliases(NewControllerDescriptors())
}

// descriptorsOf returns the descriptors of the controllers that a manager has:
// that of a cloud has the loops of the cloud, and kcm has all.
func descriptorsOf(manager string) []*ControllerDescriptor {
	return slices.DeleteFunc(NewControllerDescriptors(), func(d *ControllerDescriptor) bool {
		return manager == config.CloudManagerName && !d.isCloudProvider
	})
}

// knownControllers is what the options check --controllers against.
func knownControllers(manager string) options.Controllers {
	if manager == config.CloudManagerName {
		own := descriptorsOf(manager)
		all := names(own, func(*ControllerDescriptor) bool { return true })
		return options.Controllers{Names: all, Accepted: all, Aliases: aliases(own)}
	}
	all := slices.Concat(NewControllerDescriptors(), controllersElsewhere())
	return options.Controllers{
		Names:             KnownControllers(),
		DisabledByDefault: ControllersDisabledByDefault(),
		Accepted:          names(all, func(*ControllerDescriptor) bool { return true }),
		Aliases:           aliases(all),
	}
}

func aliases(descriptors []*ControllerDescriptor) map[string]string {
	aliases := map[string]string{}
	for _, d := range descriptors {
		for _, alias := range d.aliases {
			aliases[alias] = d.name
		}
	}
	return aliases
}

func names(descriptors []*ControllerDescriptor, keep func(*ControllerDescriptor) bool) []string {
	var names []string
	for _, d := range descriptors {
		if keep(d) {
			names = append(names, d.name)
		}
	}
	slices.Sort(names)
	return names
}

// mustBeDistinct returns the descriptors, and panics where one could not be
// told from another: a mistake in this program, not of its user.
func mustBeDistinct(descriptors []*ControllerDescriptor) []*ControllerDescriptor {
	seen := sets.New[string]()
	for _, d := range descriptors {
		if d.name == "" || d.account == "" || d.constructor == nil {
			panic(fmt.Sprintf("controller %q needs a name, an account and a constructor", d.name))
		}
		for _, name := range append([]string{d.name}, d.aliases...) {
			if seen.Has(name) {
				panic(fmt.Sprintf("two controllers go by the name %q", name))
			}
			seen.Insert(name)
		}
	}
	return descriptors
}
