package options

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

func addResourceQuotaFlags(c *config.ComponentConfig, fs *pflag.FlagSet) {
	fs.DurationVar(&c.ResourceQuota.ResourceQuotaSyncPeriod.Duration, "resource-quota-sync-period", 5*time.Minute,
		"How often the status of all resource quotas is compared with what there is, whatever has happened.")
}
