package options

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

func addNamespaceFlags(c *config.ComponentConfig, fs *pflag.FlagSet) {
	fs.DurationVar(&c.Namespace.NamespaceSyncPeriod.Duration, "namespace-sync-period", 5*time.Minute,
		"How long a namespace is left alone that is empty and not gone, because of a finalizer of somebody else. Zero is for ever.")
}
