package options

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
)

// maxVerbosity is how detailed the log can get. From 8 on, client-go logs the
// bodies of requests and answers. Among them are Secrets, and the tokens by which
// the loops and the callers of this manager are known.
const maxVerbosity = 7

// ApplyLogs begins to log as the flags say, but with no more detail than
// maxVerbosity, and says so if they asked for more.
func (o *KubeControllerManagerOptions) ApplyLogs() error {
	asked := o.Logs.Verbosity
	o.Logs.Verbosity = min(asked, maxVerbosity)
	for i := range o.Logs.VModule {
		asked = max(asked, o.Logs.VModule[i].Verbosity)
		o.Logs.VModule[i].Verbosity = min(o.Logs.VModule[i].Verbosity, maxVerbosity)
	}
	if err := logsapi.ValidateAndApply(o.Logs, feature.DefaultFeatureGate); err != nil {
		return err
	}
	if asked > maxVerbosity {
		klog.Background().Info("The log has less detail than was asked for, because more would have tokens in it", "asked", asked, "verbosity", maxVerbosity)
	}
	return nil
}

// SetVerbosity changes how detailed the log is while the manager runs. It refuses
// more than maxVerbosity.
func SetVerbosity(value string) (string, error) {
	if n, err := strconv.ParseUint(value, 10, 32); err == nil && n > maxVerbosity {
		return "", fmt.Errorf("v=%d: the log would have tokens in it; at most %d", n, maxVerbosity)
	}
	return logs.GlogSetter(value)
}

// keyFiles are the flags that name files with keys or tokens in them.
var keyFiles = []string{
	"kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig", "tls-private-key-file", "service-account-private-key-file",
	"cluster-signing-key-file", "cluster-signing-kubelet-serving-key-file", "cluster-signing-kubelet-client-key-file",
	"cluster-signing-kube-apiserver-client-key-file", "cluster-signing-legacy-unknown-key-file",
}

// LogReadableKeys warns of files with keys in them that everybody on this machine
// may read.
func LogReadableKeys(ctx context.Context, fs *pflag.FlagSet) {
	const othersRead = 0o004
	fs.Visit(func(flag *pflag.Flag) {
		if !slices.Contains(keyFiles, flag.Name) {
			return
		}
		file := flag.Value.String()
		if info, err := os.Stat(file); err == nil && info.Mode()&othersRead != 0 {
			klog.FromContext(ctx).Error(nil, "There is a key in this file, and everybody on this machine may read it: chmod o-r", "flag", "--"+flag.Name, "file", file)
		}
	})
}
