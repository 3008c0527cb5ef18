package options

import (
	"github.com/spf13/pflag"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

func addPodGCFlags(c *config.ComponentConfig, fs *pflag.FlagSet) {
	fs.Int32Var(&c.PodGC.TerminatedPodGCThreshold, "terminated-pod-gc-threshold", 12500,
		"How many pods that have ended are kept. With zero or less, all are.")
}
